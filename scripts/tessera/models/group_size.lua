-- Input channels that share a scale, where nobody says how many.

local usual, least = 128, 16

--- Of a tessera.Model: the usual, or half of it and so on until it divides what its matrices read; the usual where
--- nothing does.
return function(model)
  local size = usual
  while size >= least do
    local divides = true
    for _, width in ipairs { model.hidden_size, model.num_heads * model.head_dim, model.ffn_size } do
      divides = divides and width % size == 0
    end
    if divides then return size end
    size = size / 2
  end
  return usual
end
