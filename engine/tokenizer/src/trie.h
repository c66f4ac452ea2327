#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::tokenizer {

/// Finds which of many texts begin at a place.
class Trie {
 public:
  struct Match {
    std::size_t length;  // bytes
    std::int32_t value;
  };

  Trie() = default;
  /// Of texts that are not empty, each once, with the value to be found.
  explicit Trie(std::vector<std::pair<std::string_view, std::int32_t>> texts);

  bool empty() const { return nodes_.empty(); }

  /// Calls `found(Match)` for every text that `text` begins with, shortest first.
  template <typename Found>
  void prefixes(std::string_view text, const Found& found) const {
    if (nodes_.empty()) return;
    const Node* node = &nodes_.front();
    for (std::size_t i = 0; i < text.size(); ++i) {
      node = child(*node, static_cast<unsigned char>(text[i]));
      if (node == nullptr) return;
      if (node->value >= 0) found(Match{i + 1, node->value});
    }
  }

 private:
  struct Node {
    std::uint32_t first_child = 0;
    std::uint16_t num_children = 0;
    unsigned char byte = 0;
    std::int32_t value = -1;
  };
  const Node* child(const Node& node, unsigned char byte) const {
    const Node* low = nodes_.data() + node.first_child;
    std::size_t count = node.num_children;
    while (count > 0) {  // children are sorted by their byte
      const std::size_t half = count / 2;
      if (low[half].byte == byte) return low + half;
      if (low[half].byte < byte) {
        low += half + 1;
        count -= half + 1;
      } else {
        count = half;
      }
    }
    return nullptr;
  }

  std::vector<Node> nodes_;  // breadth first, so that children lie side by side
};

}  // namespace tessera::tokenizer
