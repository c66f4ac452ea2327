// Gemma 3: Gemma 2 with norms over heads, of which google's files leave most to the class.
#include "switches.h"

namespace tessera::hf {

// Gemma3TextConfig defaults: 8 heads, 4 key-value heads of 256, 131072 positions, a vocabulary of
// 262208, tied, every sixth layer full.
void read_gemma3(Config& config, ModelShape& model) {
  if (config.flag("use_bidirectional_attention", false)) {
    config.fail("use_bidirectional_attention",
                "an encoder, not a decoder; only false is understood", ErrorCode::unsupported);
  }
  Switches switches = *find_switches("gemma2");
  switches.sizes.max_context_tokens = 131072;
  switches.sizes.num_heads = 8;
  switches.sizes.vocab_size = 262208;
  switches.sizes.stretches_context = false;
  switches.qk_norm = QkNorm::head_width;
  switches.windows.period =
      config.size({"sliding_window_pattern", "_sliding_window_pattern"}, kLayersRange, 6);
  read_switches(config, switches, model);
}

}  // namespace tessera::hf
