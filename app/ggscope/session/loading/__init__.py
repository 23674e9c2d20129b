"""Opening files on workers, part by part."""
