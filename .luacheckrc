std = "luajit"
exclude_files = { "scripts/tessera/types" } -- generated, for editors
max_line_length = 120
files["tests/lua"] = { std = "+busted" }
