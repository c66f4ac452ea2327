-- What an error value says, whatever it is: its own __tostring may fail, or give no text.
return function(err)
  local ok, text = pcall(tostring, err)
  if not ok then
    return ("an error that is a %s, whose __tostring fails: %s"):format(type(err),
      type(text) == "string" and text or "with a " .. type(text))
  end
  if type(text) ~= "string" then
    return ("an error that is a %s, whose __tostring gives a %s"):format(type(err), type(text))
  end
  if type(err) == "table" and text:find "^table: " then return "an error that is a table without a message" end
  return text
end
