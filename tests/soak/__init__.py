"""Run real daemons for a long time under mixed load, and judge that they stay right and flat."""
