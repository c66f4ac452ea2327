#include "tessera/linear/linear.h"

#include <fmt/format.h>

#include <algorithm>

#include "forms.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::linear {
namespace {

using quant::Method;

void check_int8(const LinearForm& form) {
  if (form.bitwidth != 8) {
    refuse("int8", "W8A8 has bitwidth 8, and the form has {}", form.bitwidth);
  }
  if (form.method == Method::awq) {
    refuse("method", "awq scales the inputs of codes with f32 activations; W8A8 takes rtn or gptq");
  }
  if (form.activation_bitwidth != 16) {
    refuse("activation_bitwidth",
           "int8 rounds the activations already, with a scale per token; leave it at 16");
  }
}

void check_codes(const LinearForm& form) {
  quant::Scheme scheme = form.scheme;
  scheme.bitwidth = form.bitwidth;
  quant::check(scheme);
  if (form.method == Method::smoothquant) {
    refuse(
        ErrorCode::unsupported, "method",
        "smoothquant rewrites the norm before a matrix and is for int8 activations: set int8, or "
        "load a checkpoint that ts.quantise has written with it");
  }
  if (form.scheme.act_order == quant::ActOrder::group) {
    refuse(ErrorCode::unsupported, "act_order",
           "group scatters the columns of a group over the row, which the products do not read; "
           "take weight, which has the same order and groups as they are");
  }
}

bool has_codes(const Stack& stack) {
  return std::ranges::any_of(stack.parts(), &weights::LinearWeight::codes);
}

void check_not_twice(const Stack& stack, const LinearForm& form) {
  if (form.bitwidth == 16 ||
      std::ranges::none_of(stack.parts(), &weights::LinearWeight::is_quantised)) {
    return;
  }
  refuse(
      ErrorCode::unsupported, stack.name(0),
      "it is quantised already, and quantising it to {} bits would round it twice; take bitwidth "
      "16 as_stored, or the checkpoint in 16 bits that it was made from",
      form.bitwidth);
}

std::unique_ptr<Linear> make(const Stack& stack, const LinearForm& form,
                             const quant::LinearStatistics* inputs, int num_threads) {
  if (form.int8) return make_int8(stack, form, inputs, num_threads);
  if (form.bitwidth != 16) return make_codes(stack, form, inputs, num_threads);
  if (form.as_stored && !stack.parts().empty()) return make_stored(stack, form, num_threads);
  if (has_codes(stack)) return make_dense_of_codes(stack, form, num_threads);
  return make_dense(stack, form, num_threads);
}

}  // namespace

void check(const LinearForm& form) {
  const std::int32_t b = form.bitwidth, a = form.activation_bitwidth;
  if (b != 16 && b != 8 && b != 4 && b != 3) {
    refuse(ErrorCode::out_of_range, "bitwidth", "{} is none of 3, 4, 8 and 16", b);
  }
  if (a != 16 && a != 8) {
    refuse(ErrorCode::out_of_range, "activation_bitwidth", "{} is neither 8 nor 16", a);
  }
  if (!(form.outlier_threshold >= 0)) {
    refuse(ErrorCode::out_of_range, "outlier_threshold", "{} is below 0, which means none",
           form.outlier_threshold);
  }
  if (form.as_stored && b != 16) {
    refuse("as_stored", "what is multiplied as stored is not quantised to {} bits; take one", b);
  }
  if (form.int8) check_int8(form);
  if (b != 16) return check_codes(form);
  if (a == 8 && !form.as_stored) {
    refuse("activation_bitwidth",
           "8-bit activations are multiplied with codes; bitwidth 16 has none unless as_stored");
  }
}

std::unique_ptr<Linear> make_linear(const LinearSource& source, const LinearForm& form,
                                    const quant::LinearStatistics* inputs, int num_threads) {
  check(form);
  const Stack stack(source);
  check_not_twice(stack, form);
  return make(stack, form, inputs, num_threads);
}

std::unique_ptr<Linear> make_linear(std::span<const float> values, std::int64_t rows,
                                    std::int64_t columns, const LinearForm& form,
                                    const quant::LinearStatistics* inputs, int num_threads) {
  check(form);
  return make(Stack(values, rows, columns), form, inputs, num_threads);
}

void check_product(const Linear& linear, const float* x, std::int64_t x_stride, std::int64_t tokens,
                   const float* out, std::int64_t out_stride) {
  if (tokens < 0) refuse("tokens", "{} is below 0", tokens);
  if (tokens == 0) return;
  if (x == nullptr || out == nullptr) refuse("x", "a product needs activations and outputs");
  if (x_stride < linear.in_features()) {
    refuse("x_stride", "{} is below the {} input features", x_stride, linear.in_features());
  }
  if (out_stride < linear.out_features()) {
    refuse("out_stride", "{} is below the {} output features", out_stride, linear.out_features());
  }
}

std::string describe(const quant::Scheme& scheme) {
  const std::string zero = scheme.symmetric ? "" : ", asymmetric";
  if (scheme.granularity != quant::Granularity::group)
    return fmt::format("per {}{}", name_of(scheme.granularity), zero);
  return fmt::format("group {}{}", scheme.group_size, zero);
}

void rethrow_with(const std::string& name, const Error& error) {
  throw Error(error.code(), fmt::format("{}: {}", name, error.message()), error.where());
}

}  // namespace tessera::linear
