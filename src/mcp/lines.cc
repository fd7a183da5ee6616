#include "mvm/mcp/lines.h"

namespace mvm::mcp {

void LineBuffer::feed(std::string_view bytes) {
  held_.erase(0, begin_);
  scanned_ -= begin_;
  begin_ = 0;
  held_ += bytes;
}

std::optional<LineBuffer::Line> LineBuffer::next() {
  const size_t end = held_.find('\n', scanned_);
  if (end == held_.npos) {
    scanned_ = held_.size();
    if (held_.size() - begin_ > limit_) dropping_ = true;
    if (dropping_) {
      held_.clear();
      held_.shrink_to_fit();
      begin_ = scanned_ = 0;
    }
    return std::nullopt;
  }
  Line line;
  line.too_long = dropping_ || end - begin_ > limit_;
  if (!line.too_long) line.text = held_.substr(begin_, end - begin_);
  begin_ = scanned_ = end + 1;
  dropping_ = false;
  return line;
}

}
