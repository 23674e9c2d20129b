"""Files and text drawings that leave the program."""
