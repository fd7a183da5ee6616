#include "metered_reader.h"

namespace mvm::egress {
namespace {

using namespace std::chrono_literals;

constexpr size_t kOnce = 64 * 1024;
constexpr auto kRefill = 5ms;

}

MeteredReader::Result MeteredReader::receive(Way way, Channel& from, Bytes& into) {
  if (refill_) return {};
  const size_t allowed = meter_.allow(way, kOnce, loop_.now());
  if (allowed == 0) {
    refill_ = loop_.after(kRefill, [this] {
      refill_.reset();
      again_();
    });
    return {};
  }
  const uint64_t before = from.taken();
  const size_t had = into.size();
  Result out;
  out.state = from.receive(into, allowed);
  const uint64_t taken = from.taken() - before;
  meter_.count(way, allowed, taken);
  out.used_up = meter_.used_up();
  out.moved = taken > 0 || into.size() > had || out.state != Channel::State::Open;
  return out;
}

}
