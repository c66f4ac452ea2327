#include "tessera/serving/token_chain.h"

#include <utility>

#include "tessera/serving/content.h"

namespace tessera::serving {

ChainBlock::ChainBlock(std::shared_ptr<const ChainBlock> chain, std::vector<Token> block,
                       std::uint64_t of)
    : before(std::move(chain)), tokens(std::move(block)), hash(of) {}

ChainBlock::~ChainBlock() {
  std::shared_ptr<const ChainBlock> last = std::move(before);
  while (last && last.use_count() == 1) last = std::exchange(last->before, nullptr);
}

bool same_tokens(const ChainBlock* a, const ChainBlock* b) {
  for (; a != b; a = a->before.get(), b = b->before.get()) {
    if (a == nullptr || b == nullptr || a->hash != b->hash || a->tokens != b->tokens) return false;
  }
  return true;
}

TokenChain::TokenChain(std::int64_t block_size, const std::string& salt)
    : block_size_(static_cast<std::size_t>(block_size)) {
  if (salt.empty()) return;
  std::vector<Token> letters;  // as no tokens are
  for (const char letter : salt) letters.push_back(-1 - static_cast<unsigned char>(letter));
  std::uint64_t hash = mixed_hash(0, letters.size());
  for (const Token letter : letters) hash = mixed_hash(hash, static_cast<std::uint64_t>(letter));
  root_ = std::make_shared<const ChainBlock>(nullptr, std::move(letters), hash);
}

void TokenChain::append(std::span<const Token> tokens) {
  for (const Token token : tokens) {
    rest_.push_back(token);
    if (rest_.size() < block_size_) continue;
    const std::shared_ptr<const ChainBlock>& before = blocks_.empty() ? root_ : blocks_.back();
    std::uint64_t hash = before ? before->hash : 0;
    for (const Token t : rest_) hash = mixed_hash(hash, static_cast<std::uint64_t>(t));
    auto block = std::make_shared<const ChainBlock>(
        before, std::exchange(rest_, std::vector<Token>{}), hash);
    blocks_.push_back(std::move(block));
  }
}

}  // namespace tessera::serving
