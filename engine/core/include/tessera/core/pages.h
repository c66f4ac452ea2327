#pragma once

#include <cstdint>

// How the system hands out memory that was asked for: a page when it is first used, as a rule.
namespace tessera {

/// Asks for huge pages for what is large enough to have some. Making them takes a fraction of the
/// time that as many small ones take, and reading at random places misses them less.
void advise_huge_pages(void* data, std::int64_t bytes);

/// Has all pages handed out now. What is in them stays, also where others write meanwhile.
void make_resident(void* data, std::int64_t bytes);

}  // namespace tessera
