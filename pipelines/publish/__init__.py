"""Tables -> other people's formats, each with a data card, Croissant metadata and a gate before it."""
