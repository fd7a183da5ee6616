#include "token_watch.h"

namespace mvm::privacy {

using protect::OnMismatch;
using secret::Finder;

void TokenIndex::add(std::string_view token, protect::PiiClass kind) {
  if (tokens_.size() == kMax || token.size() < Finder::kMinText) return;
  tokens_.push_back({std::string(token), kind});
}

const Finder& TokenIndex::finder() {
  if (!finder_) finder_.emplace(Finder::Memory::Plain);
  for (; found_by_ < tokens_.size(); ++found_by_)
    finder_->add(tokens_[found_by_].text, found_by_, Finder::Written::Once);
  return *finder_;
}

bool TokenWatch::feed(std::string_view text, std::string& out) {
  held_ += text;
  return run(false, out);
}

bool TokenWatch::finish(std::string& out) { return run(true, out); }

bool TokenWatch::run(bool last, std::string& out) {
  if (refused_) return false;
  const size_t ended = lines_ == Lines::Yes ? held_.rfind('\n') + 1 : 0;
  const std::string_view text = held_;
  size_t done = 0;
  if (ended > 0 && !look(text.substr(0, ended), true, out, done)) return false;
  size_t more = 0;
  if (!look(text.substr(ended), last, out, more)) return false;
  held_.erase(0, ended + more);
  return true;
}

// `done`: how much of `text` has passed.
bool TokenWatch::look(std::string_view text, bool last, std::string& out, size_t& done) {
  if (index_.empty()) {
    out += text;
    done = text.size();
    return true;
  }
  const Finder& finder = index_.finder();
  size_t at = 0;
  const auto pass = [&](size_t until) {
    out += text.substr(done, until - done);
    done = until;
  };
  while (true) {
    const Finder::Hit hit = finder.find(text, at, last);
    if (hit.kind != Finder::Hit::Kind::Whole) {
      pass(hit.kind == Finder::Hit::Kind::Partial ? hit.at : text.size());
      return true;
    }
    at = hit.at + hit.length;
    if (!is_other_writing(hit, text.substr(hit.at, hit.length))) continue;
    counts_.add(protect::Mismatch::Reencoded, index_[hit.id].kind);
    if (on_mismatch_ == OnMismatch::Deny) refused_ = true;
    if (refused_) return false;
    if (on_mismatch_ == OnMismatch::Keep) continue;
    pass(hit.at);
    out += protect::kRedacted;
    done = at;
  }
}

// What shows its mark, and what is written as the text around it, is the restorer's to judge.
bool TokenWatch::is_other_writing(const Finder::Hit& hit, std::string_view text) const {
  return hit.form != secret::Form::Plain && !text.starts_with(protect::kTokenMark) &&
         text != protect::escaped(index_[hit.id].text, escaping_);
}

}
