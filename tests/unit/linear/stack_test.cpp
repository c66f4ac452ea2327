// Matrices of a file: what is kept in 16 bits, blocks of GGUF as they stand, and stacks, which are
// their parts one below the other.

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>

#include "expect_error.h"
#include "folder.h"
#include "products.h"
#include "tessera/weights/tensor.h"
#include "weight_files.h"

namespace tessera::linear::stack_test {
namespace {

using kernels::Real;

class StackTest : public test::FolderTest {
 protected:
  static constexpr std::int64_t kColumns = 256;

  struct Block {
    const char* name;
    std::uint32_t type;  ///< of GGUF
    std::int64_t columns, bytes;
    std::vector<std::size_t> halves;  ///< where its f16 numbers are
  };
  static inline const std::vector<Block> kBlocks{
      {"q4_0", 2, 32, 18, {0}},       {"q4_1", 3, 32, 20, {0, 2}},
      {"q5_0", 6, 32, 22, {0}},       {"q8_0", 8, 32, 34, {0}},
      {"q4_k", 12, 256, 144, {0, 2}}, {"q6_k", 14, 256, 210, {208}},
      {"q3_k", 11, 256, 110, {108}},  {"q2_k", 10, 256, 84, {80, 82}},
      {"q5_k", 13, 256, 176, {0, 2}}};

  std::string half(float value) const {
    return test::raw<std::uint16_t>(kernels::f32_to_f16(value));
  }

  // Random codes, scales of a sensible size.
  std::string random_blocks(const Block& block, std::int64_t rows) {
    std::string data;
    for (std::int64_t i = 0; i < rows * kColumns / block.columns; ++i) {
      std::string bytes(static_cast<std::size_t>(block.bytes), '\0');
      for (char& byte : bytes)
        byte = static_cast<char>(static_cast<int>(rng_.uniform() * 256) - 128);
      for (const std::size_t at : block.halves)
        bytes.replace(at, 2, half(0.01f + 0.02f * static_cast<float>(rng_.uniform())));
      data += bytes;
    }
    return data;
  }

  void add(test::GgufFile& gguf, const std::string& name, const Block& block, std::int64_t rows) {
    gguf.tensor(name, {kColumns, rows}, block.type, random_blocks(block, rows));
  }

  // "q_proj", "k_proj", "v_proj" of these rows.
  LinearSource source(const std::shared_ptr<const weights::Weights>& file) const {
    LinearSource made{file, {}, {}};
    for (const weights::TensorInfo& tensor : file->tensors())
      made.parts.push_back(part_of(tensor, tensor.name));
    return made;
  }

  LinearSource halves(const char* dtype) {
    std::vector<test::StoredTensor> tensors;
    for (const auto& [name, rows] :
         std::vector<std::pair<std::string, std::int64_t>>{{"a", 48}, {"b", 23}, {"c", 31}}) {
      std::vector<std::uint16_t> values(static_cast<std::size_t>(rows * kColumns));
      for (std::uint16_t& value : values) {
        const float number = test::draw(rng_);
        value = std::string(dtype) == "F16" ? kernels::f32_to_f16(number)
                                            : kernels::f32_to_bf16(number);
      }
      tensors.push_back({name, dtype, {rows, kColumns}, test::raw(values)});
    }
    const std::string name = std::string(dtype) + ".safetensors";
    return source(weights::Weights::open(file(name, test::safetensors_file(tensors))));
  }

  static RowMatrix numbers(const LinearSource& source) {
    std::int64_t rows = 0;
    for (const auto& part : source.parts) rows += part.num_rows;
    RowMatrix all(rows, kColumns);
    float* to = all.data();
    for (const auto& part : source.parts) {
      const auto size = static_cast<std::size_t>(part.parameters());
      weights::read_linear_f32(*source.weights, part, {to, size});
      to += size;
    }
    return all;
  }

  static RowMatrix ordered(const RowMatrix& values, const std::vector<std::int64_t>& order) {
    RowMatrix out(std::ssize(order), values.cols());
    for (std::int64_t r = 0; r < out.rows(); ++r)
      out.row(r) = values.row(order[static_cast<std::size_t>(r)]);
    return out;
  }

  // Rows of a part in the order in which GGUF has those of a head: halves interleaved.
  std::vector<std::int64_t> shuffled_in_parts(const LinearSource& source) {
    std::vector<std::int64_t> order;
    for (const auto& part : source.parts) {
      const auto first = static_cast<std::int64_t>(order.size());
      for (std::int64_t r = 0; r < part.num_rows; ++r)
        order.push_back(first + (r * 7 + 3) % part.num_rows);
    }
    return order;
  }

  RowMatrix inputs(std::int64_t tokens) { return test::random_matrix(tokens, kColumns, rng_); }

  Rng rng_{21};
};

TEST_F(StackTest, SixteenBitsOfAFileAreKeptAndTheNumbersAreTheSame) {
  for (const char* dtype : {"F16", "BF16"}) {
    const LinearSource stack = halves(dtype);
    const auto kept = make_linear(stack, dense(Real::f32), nullptr, 2);
    const RowMatrix values = numbers(stack), x = inputs(9);
    const auto wide = make(values, dense(Real::f32));
    EXPECT_EQ(kept->describe(), std::string(dtype) == "F16" ? "f16" : "bf16");
    EXPECT_EQ(wide->describe(), "f32");
    EXPECT_LT(kept->bytes(), wide->bytes() * 6 / 10);
    EXPECT_EQ(values_of(*kept), values);
    EXPECT_EQ(product(*kept, x), product(*wide, x));
    EXPECT_EQ(make_linear(stack, stored(), nullptr, 2)->describe(), kept->describe());
  }
}

TEST_F(StackTest, IsItsParts) {
  const LinearSource stack = halves("BF16");
  const auto statistics = test::statistics_of(test::random_inputs(400, kColumns, rng_));
  std::vector<LinearForm> forms{
      dense(Real::f32), dense(Real::bf16), codes(3), codes(4, 8), codes(8), int8(), int8(0)};
  forms.push_back(codes(4));
  forms.back().method = quant::Method::gptq;
  forms.push_back(codes(4));
  forms.back().scheme.granularity = quant::Granularity::tensor;
  forms.push_back(int8());
  forms.back().method = quant::Method::gptq;
  const RowMatrix x = inputs(6);
  for (const LinearForm& form : forms) {
    const auto whole = make_linear(stack, form, &statistics, 2);
    const RowMatrix values = values_of(*whole), products = product(*whole, x);
    std::int64_t row = 0;
    for (const auto& part : stack.parts) {
      const auto alone = make_linear(LinearSource{stack.weights, {part}, {}}, form, &statistics, 1);
      EXPECT_EQ(values_of(*alone), values.middleRows(row, part.num_rows)) << whole->describe();
      EXPECT_EQ(product(*alone, x), products.middleCols(row, part.num_rows)) << whole->describe();
      row += part.num_rows;
    }
    EXPECT_EQ(row, whole->out_features());
  }
}

TEST_F(StackTest, SharesTheInputScalesOfAwq) {
  const LinearSource stack = halves("F16");
  const auto statistics = test::statistics_of(test::random_inputs(400, kColumns, rng_));
  LinearForm form = codes(4);
  form.method = quant::Method::awq;
  quant::Scheme scheme = form.scheme;
  scheme.bitwidth = 4;
  const RowMatrix values = numbers(stack);
  const auto whole = make_linear(stack, form, &statistics, 2);
  // Scales per row: the search over all rows at once is the search over the parts together.
  EXPECT_EQ(values_of(*whole),
            test::values_of(quant::quantise(test::view(values), scheme, form.method, &statistics)));
  EXPECT_EQ(whole->bytes(), make_linear(stack, codes(4), nullptr, 2)->bytes() + 4 * kColumns);
}

TEST_F(StackTest, RowsComeInTheOrderThatIsAskedFor) {
  LinearSource stack = halves("F16");
  const auto statistics = test::statistics_of(test::random_inputs(400, kColumns, rng_));
  std::vector<LinearForm> forms{dense(Real::f32), codes(4), int8(), codes(3)};
  forms.back().method = quant::Method::gptq;
  std::vector<std::vector<std::int64_t>> orders{shuffled_in_parts(stack)};
  orders.emplace_back(102);  // across parts too
  std::iota(orders.back().rbegin(), orders.back().rend(), 0);
  for (const LinearForm& form : forms) {
    stack.row_order.clear();
    const RowMatrix plain = values_of(*make_linear(stack, form, &statistics, 2));
    for (const auto& order : orders) {
      stack.row_order = order;
      const auto linear = make_linear(stack, form, &statistics, 2);
      EXPECT_EQ(values_of(*linear), ordered(plain, order)) << linear->describe();
    }
  }
}

// What a tensor-parallel rank keeps is what the whole has there, to the last code.
TEST_F(StackTest, ACutHasTheNumbersOfTheWhole) {
  LinearSource stack = halves("F16");
  const auto statistics = test::statistics_of(test::random_inputs(400, kColumns, rng_));
  std::vector<LinearForm> forms{dense(Real::f32), dense(Real::bf16), codes(3), codes(4), int8()};
  for (const quant::Method method : {quant::Method::gptq, quant::Method::awq}) {
    forms.push_back(codes(4));
    forms.back().method = method;
  }
  for (const auto granularity : {quant::Granularity::channel, quant::Granularity::tensor}) {
    forms.push_back(codes(8));
    forms.back().scheme.granularity = granularity;
  }
  forms.push_back(int8());
  forms.back().method = quant::Method::gptq;
  std::vector<std::int64_t> rows;  // some of each part
  for (std::int64_t r = 5; r < 90; ++r) rows.push_back(r);
  for (const LinearForm& form : forms) {
    stack.row_order.clear();
    stack.first_column = stack.num_columns = 0;
    const RowMatrix whole = values_of(*make_linear(stack, form, &statistics, 2));
    stack.row_order = rows;
    EXPECT_EQ(values_of(*make_linear(stack, form, &statistics, 2)), ordered(whole, rows));
    for (const auto& [first, count] : {std::pair{0, 96}, {96, 64}, {160, 96}}) {
      stack.first_column = first;
      stack.num_columns = count;
      const auto linear = make_linear(stack, form, &statistics, 2);
      EXPECT_EQ(values_of(*linear), ordered(whole, rows).middleCols(first, count))
          << linear->describe() << ", columns from " << first;
      EXPECT_EQ(linear->in_features(), count);
    }
  }
}

TEST_F(StackTest, BlocksAreCutWhereTheyEnd) {
  for (const Block& block : kBlocks) {
    test::GgufFile gguf;
    add(gguf, "a", block, 40);
    add(gguf, "b", block, 24);
    LinearSource stack = source(weights::Weights::open(file("blocks.gguf", gguf.bytes())));
    const RowMatrix whole = values_of(*make_linear(stack, stored(), nullptr, 2));
    stack.row_order = {3, 41, 40};
    stack.first_column = 64;
    stack.num_columns = 96;
    if (block.columns == 32) {
      EXPECT_EQ(values_of(*make_linear(stack, stored(), nullptr, 2)),
                ordered(whole, stack.row_order).middleCols(64, 96));
      stack.num_columns = 100;
    }
    test::expect_error(ErrorCode::invalid_argument,
                       {"layer 3 a", "of its 256 cut groups of " + std::to_string(block.columns)},
                       [&] { make_linear(stack, stored(), nullptr, 2); });
  }
}

TEST_F(StackTest, BlocksOfGgufAreMultipliedAsTheyStand) {
  for (const Block& block : kBlocks) {
    test::GgufFile gguf;
    add(gguf, "a", block, 40);
    add(gguf, "b", block, 24);
    LinearSource stack = source(weights::Weights::open(file("blocks.gguf", gguf.bytes())));
    stack.row_order = shuffled_in_parts(stack);
    const auto linear = make_linear(stack, stored(), nullptr, 2);
    EXPECT_EQ(linear->describe(), std::string(block.name) + " as stored");
    const RowMatrix values = values_of(*linear), x = inputs(7);
    EXPECT_GT(values.squaredNorm(), 0);
    const auto codes = linear->codes();
    const bool has_minima = block.halves.size() == 2;
    ASSERT_EQ(codes.has_value(), !has_minima) << block.name;
    EXPECT_EQ(codes ? values_of(*codes) : values, values) << block.name;
    if (weights::info_of(stack.parts[0].tensor->dtype).readable) {
      EXPECT_EQ(values, ordered(numbers(stack), stack.row_order)) << block.name;
    }
    EXPECT_LT(nmse(product(*linear, x, 2, 3), x, values), kF32Nmse) << block.name;
    EXPECT_EQ(product(*linear, x, 1), product(*linear, x, 2)) << block.name;
    const auto rounded = make_linear(stack, stored(8), nullptr, 2);
    EXPECT_LT(nmse(product(*rounded, x, 2, 3), x, values), 1e-4) << block.name;
    EXPECT_GT(nmse(product(*rounded, x, 2, 3), x, values), kF32Nmse) << block.name;
    EXPECT_EQ(rounded->describe(), std::string(block.name) + " as stored, 8-bit activations");
  }
}

TEST_F(StackTest, PartsOfDifferentTypesAreProductsSideBySide) {
  test::GgufFile gguf;
  add(gguf, "a", kBlocks[1], 32);
  add(gguf, "b", kBlocks[5], 17);
  gguf.tensor("c", {kColumns, 20}, 0, test::raw(std::vector<float>(20 * kColumns, 0.25f)));
  LinearSource stack = source(weights::Weights::open(file("mixed.gguf", gguf.bytes())));
  stack.row_order = shuffled_in_parts(stack);
  const auto linear = make_linear(stack, stored(), nullptr, 2);
  EXPECT_EQ(linear->describe(), "q4_1 as stored + q6_k as stored + f32");
  EXPECT_EQ(linear->out_features(), 69);
  ASSERT_EQ(linear->parts().size(), 3u);
  EXPECT_EQ(linear->parts()[1]->out_features(), 17);
  EXPECT_FALSE(linear->codes().has_value());
  const RowMatrix values = values_of(*linear), x = inputs(5);
  EXPECT_EQ(values, ordered(numbers(stack), stack.row_order));
  EXPECT_LT(nmse(product(*linear, x, 2, 3), x, values), kF32Nmse);
  RowMatrix some(30, kColumns);
  linear->dequantise(25, 55, some.data());
  EXPECT_EQ(some, values.middleRows(25, 30));
  // Codes know no such difference.
  EXPECT_EQ(make_linear(stack, codes(4), nullptr, 2)->describe(), "4-bit rtn, group 32");
  std::swap(stack.row_order[0], stack.row_order[40]);
  test::expect_error(ErrorCode::invalid_argument,
                     {"row_order: output 0 of layer 3 a (tensor 'a') is a row of", "'b'"},
                     [&] { make_linear(stack, stored(), nullptr, 2); });
}

TEST_F(StackTest, BlocksThatAreNotFiniteAreRefused) {
  for (const Block& block : kBlocks) {
    std::string data = random_blocks(block, 40);
    const auto row = static_cast<std::size_t>(kColumns / block.columns * block.bytes);
    data.replace(17 * row + block.halves[0], 2, half(std::nanf("")));
    test::GgufFile gguf;
    gguf.tensor("a", {kColumns, 40}, block.type, data);
    const LinearSource stack = source(weights::Weights::open(file("nan.gguf", gguf.bytes())));
    test::expect_error(ErrorCode::invalid_argument,
                       {"layer 3 a (tensor 'a'): weight [17, 0] is", "nan"},
                       [&] { make_linear(stack, stored(), nullptr, 2); });
  }
}

TEST_F(StackTest, MemoryOfTheFileIsGivenBack) {
  // Resident pages of the mapping, by the kernel's own account.
  const auto resident_kib = [&](const std::string& name) {
    std::ifstream maps("/proc/self/smaps");
    std::string line;
    bool ours = false;
    std::int64_t sum = 0;
    while (std::getline(maps, line)) {
      if (line.find('-') != std::string::npos && line.find(':') > line.find(' '))
        ours = line.find(name) != std::string::npos;
      if (ours && line.rfind("Rss:", 0) == 0) sum += std::stoll(line.substr(4));
    }
    return sum;
  };
  test::GgufFile gguf;
  add(gguf, "a", kBlocks[3], 8000);  // 2 MiB
  const LinearSource stack = source(weights::Weights::open(file("large.gguf", gguf.bytes())));
  (void)numbers(stack);
  EXPECT_GT(resident_kib("large.gguf"), 1500);
  for (const LinearForm& form : {stored(), codes(4), int8(), LinearForm{}}) {
    const auto linear = make_linear(stack, form, nullptr, 2);
    EXPECT_LT(resident_kib("large.gguf"), 100) << linear->describe();
  }
}

}  // namespace
}  // namespace tessera::linear::stack_test
