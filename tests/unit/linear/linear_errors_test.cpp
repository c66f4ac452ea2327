// What is refused, and that the message says what and where.

#include <cmath>
#include <filesystem>

#include "expect_error.h"
#include "folder.h"
#include "products.h"
#include "weight_files.h"

namespace tessera::linear::linear_errors_test {
namespace {

using quant::Method;
using test::expect_error;
using Change = std::function<void(LinearForm&)>;

TEST(LinearErrors, FormsThatCannotBe) {
  struct Case {
    LinearForm form;
    Change change;
    ErrorCode code;
    std::vector<std::string> parts;
  };
  const LinearForm plain;
  const std::vector<Case> cases{
      {plain,
       [](LinearForm& f) { f.bitwidth = 5; },
       ErrorCode::out_of_range,
       {"bitwidth: 5 is none of 3, 4, 8 and 16"}},
      {plain,
       [](LinearForm& f) { f.activation_bitwidth = 4; },
       ErrorCode::out_of_range,
       {"activation_bitwidth: 4 is neither 8 nor 16"}},
      {plain,
       [](LinearForm& f) { f.outlier_threshold = -1; },
       ErrorCode::out_of_range,
       {"outlier_threshold: -1 is below 0"}},
      {plain,
       [](LinearForm& f) { f.outlier_threshold = std::nan(""); },
       ErrorCode::out_of_range,
       {"outlier_threshold: nan"}},
      {plain,
       [](LinearForm& f) { f.activation_bitwidth = 8; },
       ErrorCode::invalid_argument,
       {"activation_bitwidth: 8-bit activations are multiplied with codes"}},
      {codes(4),
       [](LinearForm& f) { f.as_stored = true; },
       ErrorCode::invalid_argument,
       {"as_stored: ", "4 bits"}},
      {codes(4),
       [](LinearForm& f) { f.int8 = true; },
       ErrorCode::invalid_argument,
       {"int8: W8A8 has bitwidth 8, and the form has 4"}},
      {int8(),
       [](LinearForm& f) { f.method = Method::awq; },
       ErrorCode::invalid_argument,
       {"method: awq"}},
      {int8(),
       [](LinearForm& f) { f.activation_bitwidth = 8; },
       ErrorCode::invalid_argument,
       {"activation_bitwidth: int8 rounds"}},
      {codes(8),
       [](LinearForm& f) { f.method = Method::smoothquant; },
       ErrorCode::unsupported,
       {"method: smoothquant", "int8"}},
      {codes(4),
       [](LinearForm& f) { f.scheme.act_order = quant::ActOrder::group; },
       ErrorCode::unsupported,
       {"act_order: group", "take weight"}},
      {codes(4),
       [](LinearForm& f) { f.scheme.group_size = 0; },
       ErrorCode::out_of_range,
       {"group_size is 0"}},
  };
  const RowMatrix weight = RowMatrix::Ones(16, 32);
  for (const Case& c : cases) {
    LinearForm form = c.form;
    c.change(form);
    SCOPED_TRACE(c.parts.front());
    expect_error(c.code, c.parts, [&] { make(weight, form); });
  }
}

TEST(LinearErrors, CalibrationThatIsMissing) {
  LinearForm form = codes(4);
  form.method = Method::gptq;
  const RowMatrix weight = RowMatrix::Ones(16, 32);
  expect_error(ErrorCode::invalid_argument, {"weight: method gptq needs calibration"},
               [&] { make(weight, form); });
  Rng rng(1);
  const auto other = test::statistics_of(test::random_inputs(50, 48, rng));
  expect_error(ErrorCode::invalid_argument, {"48 input features", "32 columns"},
               [&] { make(weight, form, &other); });
}

TEST(LinearErrors, WeightsThatAreNoMatrix) {
  const std::vector<float> values(12);
  expect_error(ErrorCode::invalid_argument, {"weight: 12 values are no matrix [5, 2]"},
               [&] { make_linear(values, 5, 2, {}, nullptr, 1); });
  expect_error(ErrorCode::invalid_argument, {"no matrix [0, 4]"},
               [&] { make_linear(values, 0, 4, {}, nullptr, 1); });
  expect_error(ErrorCode::invalid_argument, {"no matrix [-3, -4]"},
               [&] { make_linear(values, -3, -4, {}, nullptr, 1); });
}

TEST(LinearErrors, WeightsThatAreNotFinite) {
  for (const float bad : {std::nanf(""), INFINITY}) {
    RowMatrix weight = RowMatrix::Ones(100, 32);
    weight(70, 3) = bad;
    weight(99, 0) = bad;  // the first one is named, whatever thread meets which
    for (const LinearForm& form : {LinearForm{}, codes(4), int8()}) {
      expect_error(ErrorCode::invalid_argument, {"weight: weight [70, 3] is"},
                   [&] { make(weight, form); });
    }
  }
}

TEST(LinearErrors, WeightsBeyondTheType) {
  RowMatrix weight = RowMatrix::Ones(20, 32);
  weight(17, 4) = -70000;
  expect_error(ErrorCode::out_of_range, {"weight [17, 4] is -70000", "f16", "bf16"},
               [&] { make(weight, dense(kernels::Real::f16)); });
  EXPECT_EQ(values_of(*make(weight, dense(kernels::Real::f32))), weight);
  weight(17, 4) = 3e38F;
  expect_error(ErrorCode::invalid_argument, {"too large for 4 bits"},
               [&] { make(weight, codes(4)); });
}

TEST(LinearErrors, StridesThatAreTooShort) {
  const auto linear = make(RowMatrix::Ones(16, 32), codes(4));
  std::vector<float> x(64), out(64);
  expect_error(ErrorCode::invalid_argument, {"x_stride: 31 is below the 32 input features"},
               [&] { linear->apply(x.data(), 31, 1, out.data(), 16, 1); });
  expect_error(ErrorCode::invalid_argument, {"out_stride: 15 is below the 16 output features"},
               [&] { linear->apply(x.data(), 32, 1, out.data(), 15, 1); });
  expect_error(ErrorCode::invalid_argument, {"tokens: -1"},
               [&] { linear->apply(x.data(), 32, -1, out.data(), 16, 1); });
  expect_error(ErrorCode::invalid_argument, {"x: "},
               [&] { linear->apply(nullptr, 32, 1, out.data(), 16, 1); });
}

class LinearFileErrors : public test::FolderTest {
 protected:
  // Two tensors of one linear each.
  LinearSource source(const std::vector<float>& first, std::int64_t other_columns = 32) {
    file("model.safetensors",
         test::safetensors_file(
             {{"a", "F32", {4, 32}, test::raw(first)},
              {"b",
               "F32",
               {2, other_columns},
               test::raw(std::vector<float>(static_cast<std::size_t>(2 * other_columns), 1))}}));
    LinearSource made{weights::Weights::open(path("model.safetensors")), {}, {}};
    made.parts = {part_of(made.weights->require("a"), "a_proj"),
                  part_of(made.weights->require("b"), "b_proj")};
    return made;
  }

  const std::vector<float> ones_ = std::vector<float>(128, 1);
};

TEST_F(LinearFileErrors, NameTheTensor) {
  std::vector<float> values = ones_;
  values[32 * 2 + 5] = std::nanf("");
  for (const LinearForm& form : {LinearForm{}, codes(4), int8(), stored()}) {
    expect_error(ErrorCode::invalid_argument,
                 {"layer 3 a_proj (tensor 'a')", "weight [2, 5] is nan"},
                 [&] { make_linear(source(values), form, nullptr, 2); });
  }
}

TEST_F(LinearFileErrors, StacksThatCannotBe) {
  expect_error(ErrorCode::invalid_argument, {"a linear needs weights and at least one matrix"},
               [&] { make_linear(LinearSource{}, {}, nullptr, 1); });
  expect_error(ErrorCode::invalid_argument,
               {"parts: layer 3 a_proj has 32 input features", "b_proj has 16"},
               [&] { make_linear(source(ones_, 16), {}, nullptr, 1); });
  LinearSource stack = source(ones_);
  stack.row_order = {0, 1, 2, 3, 4, 6};
  expect_error(ErrorCode::invalid_argument, {"row_order: 6 is outside [0, 5]"},
               [&] { make_linear(stack, {}, nullptr, 1); });
  stack.row_order = {0, 1, 2, 3, 4, 4};
  expect_error(ErrorCode::invalid_argument, {"row_order: it has row 4 twice"},
               [&] { make_linear(stack, {}, nullptr, 1); });
  stack.row_order = {4};
  for (const auto& [first, count] : {std::pair{-1, 4}, {1, 32}, {32, 1}, {0, -1}}) {
    stack.first_column = first;
    stack.num_columns = count;
    expect_error(ErrorCode::invalid_argument, {"columns: ", "of the 32 input features of layer 3"},
                 [&] { make_linear(stack, {}, nullptr, 1); });
  }
  stack.first_column = stack.num_columns = 8;
  expect_error(ErrorCode::invalid_argument,
               {"layer 3 a_proj", "columns [8, 16) of its 32 cut groups of 32 that share a scale",
                "groups that divide 8"},
               [&] { make_linear(stack, codes(4), nullptr, 1); });
}

TEST_F(LinearFileErrors, AFileThatWasCut) {
  const LinearSource stack = source(ones_);
  std::filesystem::resize_file(path("model.safetensors"),
                               std::filesystem::file_size(path("model.safetensors")) - 100);
  for (const LinearForm& form : {LinearForm{}, codes(4), int8(), stored()}) {
    expect_error(ErrorCode::io, {"model.safetensors", "when it was opened"},
                 [&] { make_linear(stack, form, nullptr, 2); });
  }
}

}  // namespace
}  // namespace tessera::linear::linear_errors_test
