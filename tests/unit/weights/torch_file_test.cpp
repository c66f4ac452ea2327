// State dictionaries of PyTorch, as torch.save wrote one (tests/reference/torch_files.py) and as
// nobody should.
#include <algorithm>
#include <fstream>
#include <iterator>

#include "expect_error.h"
#include "folder.h"
#include "tessera/core/error.h"
#include "tessera/weights/weights.h"
#include "weight_files.h"

namespace tessera::weights::torch_file_test {
namespace {

using test::expect_error;
using test::raw;

// An archive of files as they are.
std::string archive(const std::vector<std::pair<std::string, std::string>>& files,
                    std::uint16_t method = 0) {
  std::string out, directory;
  for (const auto& [name, data] : files) {
    const auto size = static_cast<std::uint32_t>(data.size());
    const std::string sizes = raw(0u) + raw(size) + raw(size);
    const std::string names = raw(static_cast<std::uint16_t>(name.size())) + raw<std::uint16_t>(0);
    const std::string head = raw<std::uint16_t>(0) + raw(method) + raw(0u) + sizes;
    directory += raw(0x02014b50u) + raw<std::uint16_t>(20) + raw<std::uint16_t>(20) + head + names +
                 std::string(10, '\0') + raw(static_cast<std::uint32_t>(out.size())) + name;
    out += raw(0x04034b50u) + raw<std::uint16_t>(20) + head + names + name + data;
  }
  const auto count = static_cast<std::uint16_t>(files.size());
  return out + directory + raw(0x06054b50u) + raw(0u) + raw(count) + raw(count) +
         raw(static_cast<std::uint32_t>(directory.size())) +
         raw(static_cast<std::uint32_t>(out.size())) + raw<std::uint16_t>(0);
}

std::string text(const std::string& value) {
  return "X" + raw(static_cast<std::uint32_t>(value.size())) + value;
}

// A dictionary of one f32 tensor, in the words of torch.save.
struct Dict {
  std::string call = "ctorch._utils\n_rebuild_tensor_v2\n", type = "ctorch\nFloatStorage\n",
              key = "0", first = "K\0", shape = "K\2K\3\x86", strides = "K\3K\1\x86";
  std::string bytes() const {
    return std::string("\x80\2}", 3) + text("w") + call + "((" + text("storage") + type +
           text(key) + text("cpu") + "K\6tQ" + first + shape + strides + "\x89NtRs.";
  }
};

class TorchFile : public test::FolderTest {
 protected:
  std::shared_ptr<const Weights> open(const std::string& pickle,
                                      std::vector<float> numbers = {1, 2, 3, 4, 5, 6}) const {
    return Weights::open(
        file("m.bin", archive({{"m/data.pkl", pickle}, {"m/data/0", raw(numbers)}})));
  }
  void refuses(const std::string& pickle, const std::vector<std::string>& words,
               ErrorCode code = ErrorCode::invalid_argument) const {
    std::vector<std::string> all = words;
    all.push_back("m.bin");
    expect_error(code, all, [&] { open(pickle); });
  }
};

std::vector<float> all_of(const Weights& weights, const std::string& name) {
  const TensorInfo& tensor = weights.require(name);
  std::vector<float> values(static_cast<std::size_t>(tensor.num_elements()));
  read_f32(weights, tensor, 0, values);
  return values;
}

std::string zero_first() { return std::string("K\0", 2); }

TEST_F(TorchFile, isReadAsTorchWroteIt) {
  const auto weights =
      Weights::open(std::string(TESSERA_SOURCE_DIR) + "/tests/reference/state.bin");
  EXPECT_EQ(weights->tensors().size(), 6u);
  const std::vector<float> rows{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  EXPECT_EQ(all_of(*weights, "rows"), rows);
  EXPECT_EQ(all_of(*weights, "tied"), rows);
  EXPECT_EQ(weights->require("rows").shape, (std::vector<std::int64_t>{4, 3}));
  EXPECT_EQ(all_of(*weights, "last"), (std::vector<float>{6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(all_of(*weights, "half"), (std::vector<float>{0.5f, -2}));
  EXPECT_EQ(weights->require("half").dtype, DType::f16);
  EXPECT_EQ(all_of(*weights, "brain"), (std::vector<float>{1.5f, -3}));
  EXPECT_EQ(all_of(*weights, "count"), std::vector<float>{7});
  EXPECT_TRUE(weights->require("count").shape.empty());
}

TEST_F(TorchFile, isTakenApartByItsPickleAlone) {
  Dict dict;
  dict.first = zero_first();
  EXPECT_EQ(all_of(*open(dict.bytes()), "w"), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  dict.first = "K\1";
  refuses(dict.bytes(), {"tensor 'w'", "24 bytes from element 1", "storage of 24 bytes"});
  dict = {.first = zero_first(), .strides = "K\1K\2\x86"};
  refuses(dict.bytes(), {"tensor 'w'", "strides [1, 2]", "contiguous"}, ErrorCode::unsupported);
  dict = {.type = "ctorch\nQInt8Storage\n", .first = zero_first()};
  refuses(dict.bytes(), {"tensor 'w'", "torch.QInt8Storage"}, ErrorCode::unsupported);
  dict = {.key = "7", .first = zero_first()};
  refuses(dict.bytes(), {"tensor 'w'", "storage '7'"});
  dict = {.first = zero_first(), .shape = "J\xff\xff\xff\xffK\3\x86"};
  refuses(dict.bytes(), {"tensor 'w'", "sizes"});
}

TEST_F(TorchFile, executesNothing) {
  for (const char* name : {"posix\nsystem", "builtins\neval", "os\nsystem", "torch\nload",
                           "torch._utils\n_rebuild_sparse_tensor", "torch.a\nStorage"}) {
    Dict dict{.call = std::string("c") + name + "\n", .first = zero_first()};
    refuses(dict.bytes(), {"byte ", "nothing of a pickle is executed"}, ErrorCode::unsupported);
  }
  refuses(std::string("\x80\2(", 3) + text("x") + "i", {"operation 0x69"}, ErrorCode::unsupported);
  refuses("\x80\2ccollections\nOrderedDict\nK\1\x85R.", {"called as PyTorch does not call it"});
  refuses(std::string("\x80\2}.", 4), {"no dictionary of tensors"});
}

TEST_F(TorchFile, isRefusedWhereItIsCutShort) {
  const std::string pickle = Dict{.first = zero_first()}.bytes();
  for (std::size_t size = 0; size + 1 < pickle.size(); ++size) {
    expect_error(ErrorCode::invalid_argument, {"m.bin", "byte "},
                 [&] { open(pickle.substr(0, size)); });
  }
  const std::string whole = archive({{"m/data.pkl", pickle}, {"m/data/0", std::string(24, 0)}});
  for (std::size_t size = 4; size < whole.size(); ++size) {
    expect_error(ErrorCode::invalid_argument, {"m.bin", "byte "},
                 [&] { Weights::open(file("m.bin", whole.substr(0, size))); });
  }
  expect_error(ErrorCode::unsupported, {"m.bin", "packed"}, [&] {
    Weights::open(file("m.bin", archive({{"m/data.pkl", pickle}}, 8)));
  });
  expect_error(ErrorCode::invalid_argument, {"m.bin", "no data.pkl"}, [&] {
    Weights::open(file("m.bin", archive({{"m/x", "y"}})));
  });
}

}  // namespace
}  // namespace tessera::weights::torch_file_test
