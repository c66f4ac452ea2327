#include "parameters.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <vector>

namespace tessera::lm::train {
namespace {

enum class Kind { matrix, output, tokens, positions, gain, bias };

/// Calls visit(tensor, sizes, kind) for every parameter, in the order of the block.
template <class Visit>
void visit_all(Parameters& p, const TrainRequest& r, Visit visit) {
  using Sizes = std::vector<std::int64_t>;
  const auto h = r.hidden_size, f = r.ffn_size;
  const auto norm = [&](Norm& n) {
    visit(n.gain, Sizes{h}, Kind::gain);
    visit(n.bias, Sizes{h}, Kind::bias);
  };
  const auto linear = [&](Linear& l, std::int64_t out, std::int64_t in, Kind kind) {
    visit(l.weight, Sizes{out, in}, kind);
    visit(l.bias, Sizes{out}, Kind::bias);
  };
  visit(p.tokens, Sizes{r.vocab_size, h}, Kind::tokens);
  visit(p.positions, Sizes{r.max_context_tokens, h}, Kind::positions);
  p.layers.resize(static_cast<std::size_t>(r.num_layers));
  for (Layer& layer : p.layers) {
    norm(layer.attention_norm);
    linear(layer.qkv, 3 * h, h, Kind::matrix);
    linear(layer.out, h, h, Kind::output);
    norm(layer.ffn_norm);
    linear(layer.fc1, f, h, Kind::matrix);
    linear(layer.fc2, h, f, Kind::output);
  }
  norm(p.final_norm);
}

double initial_deviation(Kind kind, const TrainRequest& request, std::int64_t inputs) {
  const double matrix = 0.8 / std::sqrt(static_cast<double>(inputs));
  switch (kind) {
    case Kind::matrix:
      return matrix;
    case Kind::output:
      return matrix / std::sqrt(2.0 * static_cast<double>(request.num_layers));
    case Kind::tokens:
      return 0.05;
    case Kind::positions:
      return 0.02;
    case Kind::gain:
    case Kind::bias:
      break;
  }
  return 0;
}

}  // namespace

std::int64_t num_parameters(const TrainRequest& request) {
  Parameters p;
  std::int64_t total = 0;
  visit_all(p, request, [&](at::Tensor&, const std::vector<std::int64_t>& sizes, Kind) {
    total += c10::multiply_integers(sizes);
  });
  return total;
}

Parameters view_of(const TrainRequest& request, const at::Tensor& values,
                   const at::Tensor& gradients) {
  Parameters p;
  std::int64_t offset = 0;
  visit_all(p, request, [&](at::Tensor& tensor, const std::vector<std::int64_t>& sizes, Kind) {
    const std::int64_t size = c10::multiply_integers(sizes);
    tensor = values.narrow(0, offset, size).view(sizes).detach();
    if (gradients.defined()) {
      tensor.requires_grad_();
      tensor.mutable_grad() = gradients.narrow(0, offset, size).view(sizes);
    }
    offset += size;
  });
  return p;
}

at::Tensor initial_values(const TrainRequest& request) {
  at::Tensor values = at::zeros({num_parameters(request)});
  at::Generator generator =
      at::detail::createCPUGenerator(static_cast<std::uint64_t>(request.seed));
  Parameters p;
  std::int64_t offset = 0;
  visit_all(p, request, [&](at::Tensor&, const std::vector<std::int64_t>& sizes, Kind kind) {
    const std::int64_t size = c10::multiply_integers(sizes);
    at::Tensor part = values.narrow(0, offset, size);
    const double deviation = initial_deviation(kind, request, sizes.back());
    if (kind == Kind::gain) part.fill_(1);
    if (deviation > 0) part.normal_(0, deviation, generator);
    offset += size;
  });
  return values;
}

at::Tensor decay_mask(const TrainRequest& request) {
  at::Tensor mask = at::zeros({num_parameters(request)});
  Parameters p;
  std::int64_t offset = 0;
  visit_all(p, request, [&](at::Tensor&, const std::vector<std::int64_t>& sizes, Kind kind) {
    const std::int64_t size = c10::multiply_integers(sizes);
    if (kind == Kind::matrix || kind == Kind::output) mask.narrow(0, offset, size).fill_(1);
    offset += size;
  });
  return mask;
}

}  // namespace tessera::lm::train
