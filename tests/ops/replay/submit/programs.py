"""Scripts that replace Java and Spark, and print what the real programs would."""

import sys
from pathlib import Path


def write_program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script)
    path.chmod(0o755)
    return path


def write_java(home: Path, version: str) -> Path:
    """Make a JAVA_HOME whose ``java -version`` prints what OpenJDK prints."""
    said = f'openjdk version "{version}" 2025-04-15'
    write_program(home / "bin/java", f"#!/bin/sh\ncat >&2 <<END\n{said}\nOpenJDK 64-Bit\nEND\n")
    return home


def write_spark(home: Path, script: str = "", version: str = "4.3.0") -> Path:
    """Make a SPARK_HOME whose ``spark-submit`` runs a script of Python."""
    write_program(home / "bin/spark-submit", f"#!{sys.executable}\n{script}\n")
    jar = home / f"jars/spark-core_2.13-{version}.jar"
    jar.parent.mkdir(exist_ok=True)
    jar.touch()
    return home
