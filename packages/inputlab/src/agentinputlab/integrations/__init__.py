"""What lies outside this process: workers for single methods, and live histories of arenas."""
