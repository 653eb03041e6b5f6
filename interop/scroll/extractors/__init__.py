"""One module for each format: FORMAT, FILES, records(bytes), content(record), is_parsed(text, strings)."""
