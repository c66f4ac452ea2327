#include "loss.h"

#include <cmath>
#include <limits>

namespace tessera::lm::train {
namespace {

at::Tensor normalised(const at::Tensor& x, const Norm& norm) {
  return at::layer_norm(x, {x.size(-1)}, norm.gain, norm.bias);
}

at::Tensor apply(const Linear& linear, const at::Tensor& x, Products products) {
  if (products == Products::f32) return at::linear(x, linear.weight, linear.bias);
  const auto narrow = [](const at::Tensor& wide) { return wide.to(at::kBFloat16); };
  return at::linear(narrow(x), narrow(linear.weight)).to(at::kFloat) + linear.bias;
}

/// @param x [batch][T][hidden_size]
/// @param mask [T][T]: 0 where a row may look, else minus infinity
at::Tensor attention(const Layer& layer, std::int64_t num_heads, const at::Tensor& x,
                     const at::Tensor& mask, Products products) {
  const std::int64_t batch = x.size(0), length = x.size(1), hidden = x.size(2);
  const std::int64_t head_dim = hidden / num_heads;
  // [3][batch][head][T][head_dim]
  const at::Tensor qkv = apply(layer.qkv, x, products)
                             .view({batch, length, 3, num_heads, head_dim})
                             .permute({2, 0, 3, 1, 4})
                             .contiguous()
                             .view({3, batch * num_heads, length, head_dim});
  const auto parts = qkv.unbind(0);
  const at::Tensor scores = at::baddbmm(mask, parts[0], parts[1].transpose(1, 2), 1,
                                        1 / std::sqrt(static_cast<double>(head_dim)));
  const at::Tensor mixed = at::bmm(at::softmax(scores, -1), parts[2]);
  const at::Tensor joined = mixed.view({batch, num_heads, length, head_dim})
                                .transpose(1, 2)
                                .reshape({batch, length, hidden});
  return apply(layer.out, joined, products);
}

}  // namespace

at::Tensor loss_of(const Parameters& p, std::int64_t num_heads, const at::Tensor& windows,
                   Products products) {
  const std::int64_t length = windows.size(1) - 1;
  const at::Tensor inputs = windows.narrow(1, 0, length);
  const at::Tensor targets = windows.narrow(1, 1, length).reshape({-1});
  const at::Tensor mask =
      at::full({length, length}, -std::numeric_limits<float>::infinity()).triu(1);
  at::Tensor x = at::embedding(p.tokens, inputs) + p.positions.narrow(0, 0, length);
  for (const Layer& layer : p.layers) {
    x = x + attention(layer, num_heads, normalised(x, layer.attention_norm), mask, products);
    const at::Tensor wide = apply(layer.fc1, normalised(x, layer.ffn_norm), products);
    x = x + apply(layer.fc2, at::relu(wide), products);
  }
  const at::Tensor logits =
      at::matmul(normalised(x, p.final_norm).view({-1, x.size(2)}), p.tokens.t());
  return at::cross_entropy_loss(logits, targets);
}

}  // namespace tessera::lm::train
