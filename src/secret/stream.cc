#include "mvm/secret/stream.h"

#include "mvm/secret/text.h"

namespace mvm::secret {

static void append(Bytes& out, std::string_view text) {
  const ByteView bytes = as_bytes(text);
  out.insert(out.end(), bytes.begin(), bytes.end());
}

Stream::~Stream() { wipe(held_); }

bool Stream::feed(std::string_view in, bool last, Bytes& out) {
  if (refused_) return false;
  const bool has_held = !held_.empty();
  if (has_held) held_ += in;
  const std::string_view text = has_held ? std::string_view(held_) : in;
  size_t passed = 0;
  size_t rest = text.size();  // where what is held back begins
  for (size_t at = 0; at < text.size();) {
    const Finder::Hit hit = finder_.find(text, at, last);
    if (hit.kind == Finder::Hit::Kind::None) break;
    if (hit.kind == Finder::Hit::Kind::Partial) {
      rest = hit.at;
      break;
    }
    append(out, text.substr(passed, hit.at - passed));
    if (!on_hit_(hit, text.substr(hit.at, hit.length), out)) {
      refused_ = true;
      wipe(held_);
      return false;
    }
    at = passed = hit.at + hit.length;
  }
  append(out, text.substr(passed, rest - passed));
  std::string kept(text.substr(rest));
  wipe(held_);
  held_ = std::move(kept);
  return true;
}

}
