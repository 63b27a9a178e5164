"""From the bytes of pages to typed columns: split, decode, read."""
