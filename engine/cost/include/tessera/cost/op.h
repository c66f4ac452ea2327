#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/core/device.h"
#include "tessera/core/enum_names.h"
#include "tessera/core/json_fwd.h"
#include "tessera/core/model_shape.h"

namespace tessera::cost {

enum class Phase { prefill, decode };

/// What a latency is measured or predicted of.
enum class Op {
  gemm,            ///< [m, k] activations times [k, n] weights
  attention,       ///< scores, softmax and values of one layer; no projections
  experts,         ///< gate, up and down of all experts of one layer, as grouped products
  layer,           ///< one decoder layer, or the part of it that `name` says
  elementwise,     ///< norms, activations, residuals, rotary embedding: bytes in, bytes out
  all_reduce,      ///< the sum of a buffer, on every device
  all_gather,      ///< a buffer of which each device holds a share, on every device
  reduce_scatter,  ///< the sum of a buffer, of which each device gets a share
  all_to_all,      ///< from each device a share of its buffer to every other: experts
  send_recv,       ///< from one device to another
};

}  // namespace tessera::cost

namespace tessera {

template <>
inline constexpr auto kEnumNames<cost::Phase> =
    enum_names<cost::Phase>({{cost::Phase::prefill, "prefill"}, {cost::Phase::decode, "decode"}});

template <>
inline constexpr auto kEnumNames<cost::Op> =
    enum_names<cost::Op>({{cost::Op::gemm, "gemm"},
                          {cost::Op::attention, "attention"},
                          {cost::Op::experts, "experts"},
                          {cost::Op::layer, "layer"},
                          {cost::Op::elementwise, "elementwise"},
                          {cost::Op::all_reduce, "all_reduce"},
                          {cost::Op::all_gather, "all_gather"},
                          {cost::Op::reduce_scatter, "reduce_scatter"},
                          {cost::Op::all_to_all, "all_to_all"},
                          {cost::Op::send_recv, "send_recv"}});

}  // namespace tessera

namespace tessera::cost {

/// Loads of experts follow a power law of this exponent in serving. Of the exponents that
/// aiconfigurator measures (even loads, 1.01 and 1.2) it is the milder one that was measured on
/// every GPU, and the one that it takes for DeepSeek's models itself (1.2 for others): models are
/// trained to use their experts alike, and the tokens of a batch still meet by chance.
inline constexpr double kServingRouting = 1.01;
inline constexpr double kSteepestRouting = 2;

/// One operation to predict. Fields that its op does not have keep their defaults.
struct OpQuery {
  Op op = Op::gemm;
  Phase phase = Phase::prefill;  ///< attention, layer
  std::string
      dtype;  ///< the source's word: bfloat16 float16 int8_wo int4_wo sq fp8 fp8_static fp8_block
  std::string kv_dtype;        ///< attention; empty: as dtype
  std::int32_t bitwidth = 16;  ///< layer: of its weights
  double m = 0, n = 0, k = 0;  ///< gemm
  double batch_size = 0;       ///< attention, layer: sequences
  double tokens = 0;           ///< attention, layer: new tokens per sequence; experts: of all
  double context_tokens = 0;   ///< attention, layer: tokens in the KV cache before, per sequence
  double num_heads = 0, num_kv_heads = 0, head_dim = 0;  ///< attention
  double window = 0;                                     ///< attention: tokens seen; 0: all
  double hidden_size = 0, inner_size = 0;                ///< experts: of one, as a device holds it
  double num_experts = 0, top_k = 0;  ///< experts: of the layer, and that a token picks
  double routing = kServingRouting;  ///< experts: exponent of the power law of their loads; 0: even
  std::string model;                 ///< layer: the architecture's name
  /// Layer, elementwise: the part ("mlp_up_proj"); empty: all of it. all_reduce: "nccl", or empty
  /// for the runtime's own kernel.
  std::string name;
  std::shared_ptr<const LayerShape> layer;  ///< layer: its matrices
  double bytes = 0;              ///< elementwise: moved; collectives: of the whole buffer
  std::int32_t num_devices = 1;  ///< collectives; experts: that they are spread over
};

/// One measured point.
struct Sample {
  OpQuery query;
  double latency_s = 0;
  std::string device, kernel_set, source;
};

/// A size of an operation.
struct SizeField {
  std::string_view name;  ///< "batch_size"
  double OpQuery::*member;
  const char* column;  ///< its column in our CSV schema: "batch"
  bool may_be_zero = false;
};
/// All sizes, of whatever op.
const std::vector<SizeField>& size_fields();
const SizeField* find_size(std::string_view name);  ///< nullptr for another name
/// Names of the numeric fields that vary within an op ("m", "n", "k"), in the order of the schema.
const std::vector<std::string>& fields_of(Op op);
/// Also "bitwidth", "num_devices", and "layer_parameters": weights of a layer's matrices.
/// @throws Error{invalid_argument} for another name.
double field_value(const OpQuery& query, std::string_view name);
/// "gemm int4_wo m 1024, n 4096, k 4096": for messages.
std::string describe(const OpQuery& query);
/// @throws Error{out_of_range} naming the field: sizes are positive and finite, context and window
/// at least 0; a layer has a shape.
void check_query(const OpQuery& query);

/// What an operation needs, and the data-sheet rates that bound it.
struct OpWork {
  double flop = 0;
  double bytes = 0;
  double flop_per_s = 0;
  double bytes_per_s = 0;

  double compute_s() const { return flop / flop_per_s; }
  double memory_s() const { return bytes / bytes_per_s; }
  /// No kernel is faster: the larger of the two.
  double floor_s() const { return compute_s() > memory_s() ? compute_s() : memory_s(); }
};

/// Bits of a weight, of an activation, and the key of Device::flop_per_s that the products run at.
struct DtypeTraits {
  double weight_bits = 16;
  double activation_bits = 16;
  std::string compute_dtype = "fp16";
};
/// @throws Error{invalid_argument} with the known words.
DtypeTraits dtype_traits(std::string_view dtype);
std::vector<std::string> known_dtypes();
/// Whether all devices of a group take part.
bool is_collective(Op op);
/// Whether bytes go between devices as they are: no dtype.
bool moves_only(Op op);
/// Whether its samples have to name one of these: the op multiplies.
bool has_dtype(Op op);

/// Operations and bytes of a query at the device's peaks; of a dtype that the device has no rate
/// for, at its FP16 rate. Attention reads keys and values once and is causal. A layer is the sum of
/// its matrices (weights of `bitwidth`) and its attention. Experts: of the busiest device, the
/// weights that its tokens touch. Collectives: bytes only, no rate here.
OpWork work_of(const Device& device, const OpQuery& query);

/// Predicts the seconds of one op on one device. Positive, finite, and never falling when rows,
/// tokens or context grow.
class OpModel {
 public:
  virtual ~OpModel() = default;
  virtual double seconds(const OpQuery& query) const = 0;
  /// All that is needed to make the model again.
  virtual Json coefficients() const = 0;
};

/// A way to make a model from measured points, and to read it back from its coefficients.
struct FitMethod {
  std::string name;  ///< "operator", "regression", "table"
  /// `donor`: the same op on another device, whose form is kept and only scaled, for few points;
  /// nullptr: from the points alone. @throws Error{invalid_argument} where the points do not do.
  std::unique_ptr<OpModel> (*fit)(const Device& device, const std::vector<Sample>& samples,
                                  const OpModel* donor);
  /// @throws Error naming the path of the coefficient that does not do.
  std::unique_ptr<OpModel> (*read)(const Device& device, const Json& coefficients,
                                   const std::string& path);
};

/// The methods for an op, the preferred one first.
const std::vector<const FitMethod*>& fit_methods(Op op);
/// @throws Error{not_found} with the names that there are.
const FitMethod& find_fit_method(Op op, std::string_view name);

}  // namespace tessera::cost
