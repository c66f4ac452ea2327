-- What devices cost: the script's own prices, else those of the device files.

local core = require "tessera.core"

local M = {}

local fail = core.refuse

--- Checks { [device] = usd_per_h }; `known` names the devices that may have a price.
function M.check(given, known, path)
  for name, price in pairs(given or {}) do
    if type(name) ~= "string" then fail(path, "write { [\"T4-16G\"] = 0.35 }, got the key " .. tostring(name)) end
    if type(price) ~= "number" or not (price >= 0 and price < 1e9) then
      fail(path .. "." .. name, ("%s is no price; give USD/h, at least 0"):format(tostring(price)))
    end
    local found = false
    for _, device in ipairs(known) do found = found or device == name end
    if not found then fail(path, ("no device is called '%s'%s"):format(name, core.did_you_mean(name, known))) end
  end
end

--- USD/h of a device, or an error that names it.
function M.of_device(device, given, path)
  local price = given and given[device.name] or device.price_usd_per_h
  if not price then
    fail(path, ("no price of %s is known; give one in %s = { [\"%s\"] = ... } (USD/h)"):format(device.name,
      path:match "[^.]*$", device.name))
  end
  return price
end

--- { [device] = usd_per_h } of every device of a problem.
function M.of_problem(problem, given, path)
  local usd, names = {}, {}
  for _, name in ipairs(problem.devices) do names[#names + 1] = name:match "^[^@]*" end
  M.check(given, names, path)
  if problem.cluster then
    for _, device in ipairs(problem.cluster.devices) do usd[device.name] = M.of_device(device, given, path) end
  else
    for _, name in ipairs(names) do usd[name] = M.of_device({ name = name }, given, path) end
  end
  return usd
end

return M
