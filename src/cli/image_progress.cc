#include "image_progress.h"

#include <algorithm>

#include "mvm/base/text.h"

namespace mvm::cli {

static constexpr std::chrono::seconds kQuick{1};  // work below this is not worth a line
static constexpr std::chrono::milliseconds kInterval{100};
static constexpr size_t kBarWidth = 20;

std::string bar(uint64_t done, uint64_t total, size_t width) {
  const double share = total == 0 ? 0 : static_cast<double>(done) / static_cast<double>(total);
  const auto full = static_cast<size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(width));
  std::string text = "[" + std::string(full, '=');
  if (full < width) text += ">" + std::string(width - full - 1, ' ');
  return text + "]";
}

void ImageProgress::show(const api::ImportProgress& progress, Clock::time_point now) {
  if (quiet_) return;
  if (!progress.note.empty()) return console_.err("mvm: " + tame(progress.note) + "\n");
  if (progress.stage != stage_) {
    stage_ = progress.stage;
    began_ = now;
    began_at_ = progress.done;
    shown_ = {};
  }
  if (now - start_ < kQuick || now - shown_ < kInterval) return;
  shown_ = now;
  std::string text = "image " + name_ + ": " + printable(stage_, 30) + " ";
  if (progress.total > 0) text += bar(progress.done, progress.total, kBarWidth) + " ";
  text += format_size(progress.done);
  if (progress.total > 0) text += " of " + format_size(progress.total);
  // Of this stage so far; nothing before it means something.
  const auto elapsed = std::chrono::duration_cast<std::chrono::milliseconds>(now - began_).count();
  if (elapsed >= 500 && progress.done > began_at_)
    text += ", " +
            format_size((progress.done - began_at_) / static_cast<uint64_t>(elapsed) * 1000) + "/s";
  console_.progress(text);
}

}
