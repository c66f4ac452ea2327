--- The name of a cluster's first device that is no share of a CPU; nil where all are.
return function(cluster)
  for _, device in ipairs(cluster.devices) do
    if device.backend ~= "cpu" then return device.name end
  end
end
