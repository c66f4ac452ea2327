std = "luajit"
max_line_length = 120
files["tests/lua"] = { std = "+busted" }
