-- TensorRT-LLM_PP, a baseline of iServe (arXiv 2501.13111, section 8): every model in 16 bits over all GPUs by
-- pipeline stages alone, as somebody deploys who does not choose. The paper claims no more of it. TensorRT-LLM itself
-- shares no GPU among models; that they take turns on it is the paper's set-up, and what is assumed here. A model whose
-- heads do not divide, or for which memory is short, gets no place.

local ts = require "tessera"
local fixed_shape = require "tessera.serving.fixed_shape"

return ts.register_strategy {
  name = "tensorrt_llm_pp",
  doc = "Every model in one scheme over all GPUs, by pipeline stages alone",
  source = "arXiv 2501.13111, section 8",
  options = { scheme = { type = "string", default = "fp16", doc = "Of the estimates" } },

  place = function(view, model, opt) return fixed_shape.on_all(view, model, opt.scheme, "pipeline") end,
}
