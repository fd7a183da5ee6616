#pragma once
// find_triggers() of each instruction set; trigger.cc chooses.

#include <cstddef>
#include <cstdint>

namespace mvm::protect {

void find_portable(const char* data, size_t blocks, char before, uint64_t* out);
void find_avx2(const char* data, size_t blocks, char before, uint64_t* out);
void find_avx512(const char* data, size_t blocks, char before, uint64_t* out);

}
