-- The types of devices of a cluster, in the order in which they appear; of each its device, its name and its devices in
-- the cluster (0-based).
return function(cluster)
  local types, by_name = {}, {}
  for i, device in ipairs(cluster.devices) do
    local own = by_name[device.name]
    if not own then
      own = { device = device, name = device.name, devices = {} }
      by_name[device.name], types[#types + 1] = own, own
    end
    own.devices[#own.devices + 1] = i - 1
  end
  return types
end
