// Safetensors of any tensors and metadata, in one file and in shards: what is declared and appended
// is what is read.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "folder.h"
#include "tessera/core/error.h"
#include "tessera/weights/weights.h"
#include "tessera/weights/writer.h"

namespace tessera::weights::writer_property_test {
namespace {

std::string any_text(int max_size) {
  // Quotes, backslashes and letters of several bytes among them: what a header has to escape.
  const auto piece =
      rc::gen::element<std::string>("a", ".", "0", " ", "\"", "\\", "/", "{", "\u00e4", "\u6f22",
                                    "\U0001f600", "layers", "\x7f", "\n");
  std::string text;
  const int size = *rc::gen::inRange(0, max_size);
  for (int i = 0; i < size; ++i) text += *piece;
  return text;
}

TensorSpec any_tensor() {
  TensorSpec spec;
  spec.name = any_text(6);
  spec.dtype = *rc::gen::element(DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8_e4m3,
                                 DType::f4, DType::c64, DType::i64, DType::u8, DType::boolean);
  const int dimensions = *rc::gen::inRange(0, 5);
  for (int i = 0; i < dimensions; ++i)
    spec.shape.push_back(
        *rc::gen::weightedElement<std::int64_t>({{1, 0}, {4, 1}, {8, 2}, {4, 3}, {4, 6}}));
  return spec;
}

// In pieces of any size, tensors in any order.
std::map<std::string, std::string> append_all(SafetensorsWriter& writer,
                                              std::vector<TensorSpec> specs) {
  std::map<std::string, std::string> contents;
  while (!specs.empty()) {
    const auto at = specs.begin() +
                    *rc::gen::inRange<std::ptrdiff_t>(0, static_cast<std::ptrdiff_t>(specs.size()));
    const auto size = static_cast<std::size_t>(*size_bytes(at->dtype, at->shape));
    std::string content = *rc::gen::container<std::string>(size, rc::gen::arbitrary<char>());
    const auto cut = *rc::gen::inRange<std::size_t>(0, size + 1);
    const auto bytes = std::as_bytes(std::span(content));
    writer.append(at->name, bytes.first(cut));
    writer.append(at->name, bytes.subspan(cut));
    contents[at->name] = std::move(content);
    specs.erase(at);
  }
  return contents;
}

// What no reader takes, no writer may write.
bool is_refused(const std::vector<TensorSpec>& specs) {
  std::set<std::string> names;
  for (const TensorSpec& spec : specs) {
    const bool has_control = std::any_of(spec.name.begin(), spec.name.end(),
                                         [](unsigned char c) { return c < 0x20 || c == 0x7f; });
    if (spec.name.empty() || has_control || !names.insert(spec.name).second) return true;
    if (!size_bytes(spec.dtype, spec.shape)) return true;  // half a byte
  }
  return false;
}

class WriterProperty : public test::FolderTest {};

RC_GTEST_FIXTURE_PROP(WriterProperty, WhatIsWrittenIsReadOrRefused, ()) {
  std::vector<TensorSpec> specs;
  const int count = *rc::gen::inRange(0, 8);
  for (int i = 0; i < count; ++i) specs.push_back(any_tensor());
  WriterOptions options;
  const int num_metadata = *rc::gen::inRange(0, 4);
  for (int i = 0; i < num_metadata; ++i) options.metadata[any_text(4)] = any_text(8);
  options.max_shard_bytes = *rc::gen::element<std::uint64_t>(0, 1, 16, 40, 1000);
  const std::string out = path("model.safetensors");
  if (is_refused(specs)) {
    RC_ASSERT_THROWS_AS(SafetensorsWriter(out, specs, options), Error);
    RC_ASSERT(num_files() == 0u);
    return;
  }
  SafetensorsWriter writer(out, specs, options);
  const auto contents = append_all(writer, specs);
  RC_ASSERT(!std::filesystem::exists(out));
  writer.finish();
  RC_ASSERT(num_files() == writer.files().size());
  const auto weights = Weights::open(folder_.string());
  RC_ASSERT(weights->metadata() == Json(options.metadata));
  RC_ASSERT(weights->tensors().size() == specs.size());
  for (const TensorSpec& spec : specs) {
    const TensorInfo& tensor = weights->require(spec.name);
    RC_ASSERT(tensor.dtype == spec.dtype);
    RC_ASSERT(tensor.shape == spec.shape);
    const auto read = weights->bytes(tensor),
               appended = std::as_bytes(std::span(contents.at(spec.name)));
    RC_ASSERT(std::equal(read.begin(), read.end(), appended.begin(), appended.end()));
  }
}

}  // namespace
}  // namespace tessera::weights::writer_property_test
