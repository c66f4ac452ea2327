#include "trie.h"

#include <algorithm>
#include <deque>

namespace tessera::tokenizer {

Trie::Trie(std::vector<std::pair<std::string_view, std::int32_t>> texts) {
  if (texts.empty()) return;
  std::sort(texts.begin(), texts.end());
  struct Range {
    std::size_t node, begin, end, depth;
  };
  std::deque<Range> open = {{0, 0, texts.size(), 0}};
  nodes_.emplace_back();
  while (!open.empty()) {
    Range range = open.front();
    open.pop_front();
    if (texts[range.begin].first.size() == range.depth) {  // the shortest comes first
      nodes_[range.node].value = texts[range.begin++].second;
    }
    nodes_[range.node].first_child = static_cast<std::uint32_t>(nodes_.size());
    while (range.begin < range.end) {
      const char byte = texts[range.begin].first[range.depth];
      std::size_t end = range.begin + 1;
      while (end < range.end && texts[end].first[range.depth] == byte) ++end;
      Node node;
      node.byte = static_cast<unsigned char>(byte);
      open.push_back({nodes_.size(), range.begin, end, range.depth + 1});
      nodes_.push_back(node);
      ++nodes_[range.node].num_children;
      range.begin = end;
    }
  }
}

}  // namespace tessera::tokenizer
