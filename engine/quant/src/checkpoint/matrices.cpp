#include "matrices.h"

#include <fmt/format.h>

#include <map>

#include "layout.h"
#include "tessera/core/error.h"
#include "tessera/weights/tensor.h"

namespace tessera::quant {
namespace {

void check_storage(const weights::LinearWeight& linear) {
  const weights::TensorInfo& tensor = *linear.tensor;
  if (linear.transposed) {
    refuse(ErrorCode::unsupported, tensor.name,
           "the matrix is stored transposed, as GPT-2's are (Conv1D); compressed-tensors, and so "
           "transformers and vLLM, quantises modules of class Linear only. ts.quantise takes the "
           "matrices one by one; bitwidth 16 leaves them in a checkpoint as they are");
  }
  if (tensor.shape.size() != 2) {
    refuse(ErrorCode::unsupported, tensor.name,
           "the tensor is {}: compressed-tensors has no place for stacked experts; "
           "store one tensor for each expert, as the model's original checkpoint does",
           weights::describe_shape(tensor.shape));
  }
  if (!weights::real_of(tensor.dtype)) {
    refuse(ErrorCode::unsupported, tensor.name, "it is {}; F32, F16 or BF16 can be quantised",
           weights::to_string(tensor.dtype));
  }
}

Scheme scheme_of(const CheckpointRequest& request, const StoredMatrix& matrix, int bitwidth) {
  Scheme scheme = request.scheme;
  scheme.bitwidth = bitwidth;
  scheme.scale_type = *weights::real_of(matrix.tensor->dtype);
  if (request.method == Method::smoothquant) {
    scheme.symmetric = true;
    scheme.granularity = Granularity::channel;
  }
  return scheme;
}

void check_group_size(const StoredMatrix& matrix) {
  const std::int64_t columns = matrix.columns(), size = matrix.scheme.group_size;
  if (matrix.scheme.granularity != Granularity::group || columns % size == 0) return;
  std::int64_t fits = 256;
  while (columns % fits != 0) fits /= 2;
  refuse(matrix.tensor->name,
         "group_size {} does not divide its {} input features, as compressed-tensors "
         "needs; {} does",
         size, columns, fits);
}

}  // namespace

std::vector<StoredMatrix> matrices_of(const weights::Weights& model, const ModelShape& shape,
                                      const CheckpointRequest& request) {
  std::vector<StoredMatrix> found;
  std::map<std::string, std::size_t> place;
  for (const weights::LinearWeight& linear : weights::linears_of(model, shape)) {
    const int bitwidth = request.bitwidths[static_cast<std::size_t>(linear.layer_index)];
    if (bitwidth == 16) continue;
    check_storage(linear);
    const auto [it, is_new] = place.emplace(linear.tensor->name, found.size());
    if (is_new) {
      StoredMatrix matrix;
      matrix.tensor = linear.tensor;
      matrix.module = module_of(linear.tensor->name);
      matrix.layer_index = linear.layer_index;
      matrix.scheme = scheme_of(request, matrix, bitwidth);
      check_group_size(matrix);
      found.push_back(std::move(matrix));
    }
    found[it->second].linears.push_back(linear.linear);
  }
  return found;
}

}  // namespace tessera::quant
