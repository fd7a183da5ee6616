#include "trigger.h"

#include <initializer_list>

#include "trigger_paths.h"

namespace mvm::protect {
namespace {

Vectors best() {
  for (const bool has :
       {__builtin_cpu_supports("avx2") != 0, __builtin_cpu_supports("bmi") != 0,
        __builtin_cpu_supports("bmi2") != 0, __builtin_cpu_supports("popcnt") != 0})
    if (!has) return Vectors::None;
  return __builtin_cpu_supports("avx512bw") != 0 ? Vectors::Avx512 : Vectors::Avx2;
}

}

bool find_triggers_with(Vectors vectors, const char* data, size_t blocks, char before,
                        uint64_t* out) noexcept {
  static const Vectors most = best();
  if (vectors > most) return false;
  switch (vectors) {
    case Vectors::Avx512:
      find_avx512(data, blocks, before, out);
      break;
    case Vectors::Avx2:
      find_avx2(data, blocks, before, out);
      break;
    case Vectors::None:
      find_portable(data, blocks, before, out);
      break;
  }
  return true;
}

void find_triggers(const char* data, size_t blocks, char before, uint64_t* out) noexcept {
  for (const Vectors vectors : {Vectors::Avx512, Vectors::Avx2, Vectors::None})
    if (find_triggers_with(vectors, data, blocks, before, out)) return;
}

}
