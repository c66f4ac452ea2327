-- For scripts of yours too: a copy beside them will do. They need no globals, require "tessera" is all.
std = "luajit"
max_line_length = 120
