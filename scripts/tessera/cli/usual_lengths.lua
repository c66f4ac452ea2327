-- Lengths of requests where a command gives none: the usual ones, shorter for a model that does not take them.

local core = require "tessera.core"

local share_of_context = 0.9 -- of requests as usual, where the context is shorter than those

--- prompt_tokens and output_tokens as they are, or in the same ratio within the model's context. A model that there is
--- not is left to the search, which refuses it by its own name for it.
return function(usual, model)
  local found, shape = pcall(core.model, model)
  local all, context = usual.prompt_tokens + usual.output_tokens, found and shape.max_context_tokens or math.huge
  if all <= context then return usual end
  local function shortened(tokens) return math.max(1, math.floor(tokens / all * share_of_context * context)) end
  return { prompt_tokens = shortened(usual.prompt_tokens), output_tokens = shortened(usual.output_tokens) }
end
