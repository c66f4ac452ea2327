-- even_layers(num_layers, num_stages): layers of the stages, as even as can be, the first ones one more.
return function(num_layers, num_stages)
  local layers = {}
  for k = 1, num_stages do
    layers[k] = math.floor(num_layers / num_stages) + (k <= num_layers % num_stages and 1 or 0)
  end
  return layers
end
