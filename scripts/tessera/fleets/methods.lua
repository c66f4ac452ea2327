-- Methods of what ts.plan_fleet gives: called with a colon, on such an object.

local core = require "tessera.core"

--- The table of methods, and method(name, f) that puts one in. `word`: what the object is called; `is(value)`: whether
--- it is one; `made_by`: what gives it.
return function(word, is, made_by)
  local methods = {}
  return methods, function(name, f)
    methods[name] = function(self, ...)
      if not is(self) then
        core.raise("invalid_argument", ("%s is called as %s:%s(...), on what %s gave"):format(name, word, name,
          made_by), name)
      end
      return f(self, ...)
    end
  end
end
