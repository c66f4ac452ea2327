-- The Lua library of Tessera.
return {}
