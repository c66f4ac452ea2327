-- Fig. 1: what the 180 configurations of Llama-2-70B span: time, memory and GPU time of a request of 100 tokens.
--
-- The length of the prompt is not in print, so three stand beside each other; claims are about 512. Print has GB: all
-- weights at 4 bits are 34.49 GB, with embeddings in FP16 35.27 GB, so that the printed least, 34.52, has room for no
-- runtime as GB, and for 1.8 GB as GiB; its most, 153.59, has as GB 15.6 GB for eight GPUs beside 138 GB of weights.
local iserve = require "lib.papers.iserve"
local ts = require "tessera"

local print_of = { -- least, most
  { "latency_s", 2.58, 22.02, 1.6 }, { "memory_gb", 34.52, 153.59, 1.2 }, { "gpu_s", 7.33, 174.37, 1.6 },
}

local function spans(rows)
  local result = {}
  for field, scale in pairs { latency_s = 1, memory_bytes = 1e9, gpu_s = 1 } do
    local least, most = iserve.ends(rows, field)
    local name = field == "memory_bytes" and "memory_gb" or field
    result["least_" .. name], result["most_" .. name] = least[field] / scale, most[field] / scale
    result["span_" .. name] = most[field] / least[field]
    result["at_least_" .. name], result["at_most_" .. name] = iserve.name(least), iserve.name(most)
  end
  return result
end

return ts.experiment {
  name = "iserve/fig1",
  doc = "Spans of time, memory and GPU time over all configurations of Llama-2-70B",
  grid = { prompt_tokens = { 128, 512, 1024 } },
  quick = { prompt_tokens = { 512 } },
  columns = { "least_latency_s", "most_latency_s", "span_latency_s", "least_memory_gb", "most_memory_gb",
    "span_memory_gb", "least_gpu_s", "most_gpu_s", "span_gpu_s", "num_estimated", "num_refused" },
  notes = { "print: 2.58 to 22.02 s (8.53x), 34.52 to 153.59 GB (4.45x), 7.33 to 174.37 GPU s (23.79x)",
    "the memory that every GPU needs for itself is 0.8 GB of context and 3 % of the card, which the allocator loses" },

  run = function(point)
    local rows = iserve.estimates("llama-2-70b", { prompt_tokens = point.prompt_tokens })
    local row, refused = spans(rows), 0
    for _, estimate in ipairs(rows) do refused = refused + (estimate.refused and 1 or 0) end
    row.num_estimated, row.num_refused = #rows - refused, refused
    return row
  end,

  check = function(t)
    local function value(column)
      return function(at) return at { prompt_tokens = 512 }[column] end
    end
    iserve.within(t, "the slowest takes 8.53 times as long as the fastest", value "span_latency_s", 5.5, 13)
    iserve.within(t, "the largest takes 4.45 times as much memory as the smallest", value "span_memory_gb", 3.3, 6)
    iserve.within(t, "GPU time spans 23.79 times", value "span_gpu_s", 14, 40)
    for _, printed in ipairs(print_of) do
      local name, least, most, factor = unpack(printed)
      for _, side in ipairs { { "least", least }, { "most", most } } do
        local which, number = unpack(side)
        iserve.within(t, ("the %s %s is %g, within %g times"):format(which, name, number, factor),
          value(which .. "_" .. name), number / factor, number * factor)
      end
    end
  end,
}
