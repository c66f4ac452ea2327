-- What a folder's encoders of pictures take, against counts of their modules in transformers 5.24.

local core = require "tessera.core"
local folders = require "launch_folders"
local host = require "tessera.host"
local towers = require "tessera.models.towers"

local fresh = folders.fresh
folders.keep(setup, teardown)

-- Configurations of vision_config as their classes have them by default, and parameters of the encoder and the merger.
local cases = {
  { "qwen2_vl", 675759104, { depth = 32, embed_dim = 1280, hidden_size = 3584, mlp_ratio = 4,
    spatial_merge_size = 2 } },
  { "qwen2_5_vl", 3083025152, { depth = 32, hidden_size = 3584, intermediate_size = 3420, out_hidden_size = 3584,
    spatial_merge_size = 2 } },
  { "qwen3_5", 453650672, { depth = 27, hidden_size = 1152, intermediate_size = 4304, out_hidden_size = 3584,
    spatial_merge_size = 2 } },
  { "glm4v_moe", 892498432, { depth = 24, hidden_size = 1536, intermediate_size = 13696, out_hidden_size = 4096,
    spatial_merge_size = 2 } },
  { "paligemma", 399497472, { num_hidden_layers = 27, hidden_size = 1152, intermediate_size = 4304 } },
  { "llava", 303507456, { num_hidden_layers = 24, hidden_size = 1024, intermediate_size = 4096 } },
}

local function said_of(config)
  local folder = fresh()
  host.make_folder(folder)
  core.write_file(folder .. "/config.json", core.to_json(config))
  return towers(folder)
end

describe("a vision tower", function()
  it("is said within a tenth of what it takes", function()
    for _, case in ipairs(cases) do
      local name, parameters, vision = case[1], case[2], case[3]
      local said = said_of { model_type = name, vision_config = vision }
      local billions = tonumber(said:match "its vision tower of about ([%d%.]+) billion parameters")
      assert.is_number(billions, name .. ": " .. said)
      assert.is_true(math.abs(billions * 1e9 - parameters) < 0.1 * parameters,
        ("%s: %g billion, and its modules hold %.3f"):format(name, billions, parameters / 1e9))
    end
  end)

  it("of unknown size is said to be there, and none is not", function()
    assert.matches("its audio tower of a size that its configuration does not say",
      said_of { model_type = "x", audio_config = { width = 3 } })
    assert.equal("", said_of { model_type = "llama" })
  end)
end)
