#include <algorithm>
#include <cmath>
#include <numeric>

#include "pruner.h"
#include "tessera/core/error.h"
#include "tessera/kernels/parallel.h"

namespace tessera::quant {
namespace {

constexpr std::int64_t kMostGroup = 8;

class Wanda final : public Pruner {
 public:
  Wanda(const PruneInput& input, std::int64_t kept, std::int64_t group)
      : input_(input), kept_(kept), group_(group) {
    for (const weights::LinearWeight& linear : input.linears) {
      if (linear.in_features % group != 0) {
        refuse(linear.tensor->name, "its {} inputs do not make groups of {}; take method {}",
               linear.in_features, group, group == 8 ? "wanda_2_4 or structured" : "structured");
      }
      of_tensor_[linear.tensor].push_back(&linear);
    }
  }

  std::vector<std::int64_t> shape_of(const weights::TensorInfo& tensor) const override {
    return tensor.shape;
  }

  std::vector<std::byte> bytes_of(const weights::TensorInfo& tensor) const override {
    const auto stored = input_.model->bytes(tensor);
    std::vector<std::byte> bytes(stored.begin(), stored.end());
    const auto linears = of_tensor_.find(&tensor);
    if (linears == of_tensor_.end()) return bytes;
    const auto width = static_cast<std::size_t>(tensor.size_bytes) /
                       static_cast<std::size_t>(tensor.num_elements());
    for (const weights::LinearWeight* linear : linears->second) prune(*linear, width, bytes);
    return bytes;
  }

  void change(Json&) const override {}
  double ratio() const override {
    return 1 - static_cast<double>(kept_) / static_cast<double>(group_);
  }

 private:
  void prune(const weights::LinearWeight& linear, std::size_t width,
             std::vector<std::byte>& bytes) const {
    const std::int64_t columns = linear.in_features;
    std::vector<float> values(static_cast<std::size_t>(linear.parameters()));
    weights::read_linear_f32(*input_.model, linear, values);
    const Eigen::VectorXf norm =
        input_.mean_square(linear.layer_index, linear.linear, columns).cwiseSqrt();
    const auto row = [&](std::int64_t r) {
      for (std::int64_t first = 0; first < columns; first += group_) {
        const float* weight = values.data() + r * columns + first;
        std::int64_t order[kMostGroup];
        std::iota(order, order + group_, std::int64_t{0});
        const auto score = [&](std::int64_t c) { return std::abs(weight[c]) * norm[first + c]; };
        std::stable_sort(order, order + group_,
                         [&](std::int64_t a, std::int64_t b) { return score(a) > score(b); });
        for (std::int64_t i = kept_; i < group_; ++i) {
          const std::size_t at = element(linear, r, first + order[i]) * width;
          std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), width, std::byte{0});
        }
      }
    };
    kernels::for_slices(kernels::hardware_threads(), linear.num_rows, 1,
                        [&](std::int64_t first, std::int64_t last) {
                          for (std::int64_t r = first; r < last; ++r) row(r);
                        });
  }

  static std::size_t element(const weights::LinearWeight& linear, std::int64_t row,
                             std::int64_t column) {
    const std::int64_t stored = linear.stored_row(row);
    return static_cast<std::size_t>(linear.offset + (linear.transposed
                                                         ? column * linear.stored_rows + stored
                                                         : stored * linear.in_features + column));
  }

  const PruneInput& input_;
  std::int64_t kept_, group_;
  std::map<const weights::TensorInfo*, std::vector<const weights::LinearWeight*>> of_tensor_;
};

}  // namespace

std::unique_ptr<Pruner> make_wanda(const PruneInput& input, std::int64_t kept, std::int64_t group) {
  return std::make_unique<Wanda>(input, kept, group);
}

}  // namespace tessera::quant
