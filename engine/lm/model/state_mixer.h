#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "tessera/lm/backend.h"

// Layers that mix the tokens of a sequence by a state of fixed size, in memory of the program.
namespace tessera::lm {

/// The matrices of a layer that mixes tokens by a state: what makes its inputs of the hidden state,
/// what makes a hidden state of its outputs, and products between the two (Mamba).
struct StateMatrices {
  std::shared_ptr<const Linear> in, out;
  std::vector<std::shared_ptr<const Linear>> inner;
};

/// What a mixer has at hand.
struct MixerTools {
  std::span<const std::shared_ptr<const Linear>> inner;  ///< of StateMatrices
  std::function<void(std::size_t, Rows2d)> see;          ///< what one of these reads; or null
  int num_threads = 0;
};

class StateMixer {
 public:
  virtual ~StateMixer() = default;
  virtual std::int64_t columns() const = 0;  ///< of what goes in
  virtual std::int64_t outputs() const = 0;  ///< of what comes out
  /// Takes the tokens `in` [tokens][columns] of a sequence one after the other from `state` on, and
  /// leaves it as it is after them. out [tokens][outputs]. Does not depend on num_threads.
  virtual void run(Rows2d in, float* state, Rows2d out, const MixerTools& tools) const = 0;
};

/// How many numbers a kind of mixer has beside its matrices; 0: none of a sort.
struct StateCounts {
  std::int64_t channels = 0, kernel = 0;  ///< of its short convolution
  std::int64_t num_convolutions = 1;      ///< tensors that it lies in
  std::int64_t decay = 0, step_bias = 0, skip = 0, norm = 0;
  std::int64_t step_norm = 0, state_norm = 0;  ///< of what Mamba makes of its inputs, in Jamba

  /// The last inputs of the convolution.
  std::int64_t kept_inputs() const { return (kernel - 1) * channels; }
};

/// A gated delta net (Yang et al., Gated Delta Networks, arXiv:2412.06464, eq. 10), as Qwen3-Next
/// has it: keys and values pass a short convolution, and each value head keeps a matrix that decays
/// and is corrected towards the values of the keys that it has seen.
struct DeltaNet {
  std::int64_t num_key_heads = 0, num_value_heads = 0;  ///< a key head serves several of values
  std::int64_t key_dim = 0, value_dim = 0;
  std::int64_t kernel = 0;     ///< inputs that the convolution sees
  bool by_head = false;        ///< columns q, k, v and z of a key head lie together
  bool steps_by_head = false;  ///< so do its b and a
  bool tiled = false;  ///< value heads of a key head lie apart, one in each round through these

  std::int64_t channels() const {
    return 2 * num_key_heads * key_dim + num_value_heads * value_dim;
  }
  std::int64_t values() const { return num_value_heads * value_dim; }
  std::int64_t outputs() const { return values(); }
  std::int64_t group() const { return num_value_heads / num_key_heads; }
  /// Which one is the i-th that a key head serves.
  std::int64_t value_head(std::int64_t key_head, std::int64_t i) const {
    return tiled ? i * num_key_heads + key_head : key_head * group() + i;
  }
  /// Columns of what goes in: q, k, v and gates z of all heads, then b and a of the value heads.
  /// By head: of each key head q, k, its values and their z; then of each the b and the a.
  std::int64_t columns() const { return channels() + values() + 2 * num_value_heads; }
  StateCounts counts() const {
    return {.channels = channels(),
            .kernel = kernel,
            .decay = num_value_heads,
            .step_bias = num_value_heads,
            .norm = value_dim};
  }
  /// The last inputs of the convolution [kernel - 1][channels], and a matrix [key_dim][value_dim]
  /// of each value head.
  std::int64_t state_numbers() const { return counts().kept_inputs() + values() * key_dim; }
};

/// Kimi Delta Attention (arXiv:2510.26692, section 3): a delta net whose heads forget each channel
/// of their keys by a step of its own; steps, and the gates of the outputs, are of low rank.
struct KimiDelta {
  std::int64_t num_heads = 0, head_dim = 0;  ///< of keys and of values
  std::int64_t kernel = 0;

  std::int64_t width() const { return num_heads * head_dim; }
  std::int64_t outputs() const { return width(); }
  std::int64_t channels() const { return 3 * width(); }
  /// Columns of what goes in: q, k and v of all heads, what makes steps, what makes gates, then how
  /// much each head corrects.
  std::int64_t columns() const { return channels() + 2 * head_dim + num_heads; }
  StateCounts counts() const {
    return {.channels = channels(),
            .kernel = kernel,
            .num_convolutions = 3,
            .decay = num_heads,
            .step_bias = width(),
            .norm = head_dim};
  }
  /// The last inputs of the convolution, and a matrix [head_dim][head_dim] of each head.
  std::int64_t state_numbers() const { return counts().kept_inputs() + width() * head_dim; }
};

/// Mamba (Gu and Dao, arXiv:2312.00752, section 3.2), as Jamba has it: a state of each channel,
/// that decays and takes in B by a step of the channel's own, and is read by C. A step has a low
/// rank.
struct Mamba {
  std::int64_t inner = 0;
  std::int64_t state = 0;  ///< numbers of a channel
  std::int64_t rank = 0, kernel = 0;
  bool normed = false;  ///< what makes the step, B and C

  std::int64_t columns() const { return 2 * inner; }  ///< channels, then gates
  std::int64_t outputs() const { return inner; }
  StateCounts counts() const {
    return {.channels = inner,
            .kernel = kernel,
            .decay = inner * state,
            .step_bias = inner,
            .skip = inner,
            .step_norm = normed ? rank : 0,
            .state_norm = normed ? state : 0};
  }
  /// The last inputs of the convolution, and [inner][state].
  std::int64_t state_numbers() const { return counts().kept_inputs() + inner * state; }
};

/// Mamba 2 (Dao and Gu, arXiv:2405.21060, section 7), as Granite 4 has it: each channel of a head
/// keeps a vector that decays by the head's step and takes in B, and is read by C.
struct Mamba2 {
  std::int64_t num_heads = 0, head_dim = 0;
  std::int64_t num_groups = 0;  ///< of heads that share B and C
  std::int64_t state = 0;       ///< numbers of a channel
  std::int64_t kernel = 0;
  float least_step = 0, most_step = std::numeric_limits<float>::infinity();  ///< of a head's
  std::int64_t norm_groups = 1;  ///< of channels that are normed as one; 0: none are
  bool gate_last = false;        ///< the gate counts after the norm

  std::int64_t inner() const { return num_heads * head_dim; }
  std::int64_t outputs() const { return inner(); }
  std::int64_t channels() const { return inner() + 2 * num_groups * state; }
  /// Columns of what goes in: gates, then channels x, B, C, then a step of each head.
  std::int64_t columns() const { return inner() + channels() + num_heads; }
  StateCounts counts() const {
    return {.channels = channels(),
            .kernel = kernel,
            .decay = num_heads,
            .step_bias = num_heads,
            .skip = num_heads,
            .norm = norm_groups > 0 ? inner() : 0};
  }
  /// The last inputs of the convolution, and [heads][head_dim][state].
  std::int64_t state_numbers() const { return counts().kept_inputs() + inner() * state; }
};

/// A convolution between two gates and no recurrence (LFM2).
struct GatedConvolution {
  std::int64_t channels = 0, kernel = 0;

  std::int64_t columns() const { return 3 * channels; }  ///< gates before, gates after, inputs
  std::int64_t outputs() const { return channels; }
  StateCounts counts() const { return {.channels = channels, .kernel = kernel}; }
  std::int64_t state_numbers() const { return counts().kept_inputs(); }
};

using StateForm = std::variant<DeltaNet, KimiDelta, Mamba, Mamba2, GatedConvolution>;

struct StateWeights {
  std::vector<float> convolution;       ///< [channels][kernel], oldest first
  std::vector<float> convolution_bias;  ///< [channels], or empty
  /// [heads]; of Mamba [inner][state] and [inner], of Kimi's a step for each channel.
  std::vector<float> decay, step_bias;
  std::vector<float> skip;  ///< [heads] or [inner]: what passes beside the state
  std::vector<float> norm;  ///< of the outputs
  std::vector<float> step_norm, b_norm, c_norm;
  float epsilon = 0;
};

std::shared_ptr<const StateMixer> make_mixer(const DeltaNet& net, StateWeights weights);
std::shared_ptr<const StateMixer> make_mixer(const KimiDelta& net, StateWeights weights);
std::shared_ptr<const StateMixer> make_mixer(const Mamba& mamba, StateWeights weights);
std::shared_ptr<const StateMixer> make_mixer(const Mamba2& mamba, StateWeights weights);
std::shared_ptr<const StateMixer> make_mixer(const GatedConvolution& net, StateWeights weights);

}  // namespace tessera::lm
