"""Send the frames of each lane, and measure the answers."""
