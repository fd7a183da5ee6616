// One spare at most: a sandbox's processes, made before anybody asks for them and like those of the
// sandbox that was there last (docs/decisions/0029-spares.md).
#include "impl.h"

namespace mvm::daemon {

// Who asks for one sandbox after another has the host to himself until then.
static constexpr milliseconds kSpareDelay{200};
static constexpr const char* kSpareTask = "spare";
static constexpr const char* kSpareEnd = "end of the spare";

// "MemAvailable:   123 kB" of /proc/meminfo (proc(5)); 0 where there is no such line.
static uint64_t available_memory() {
  constexpr size_t kMaxMeminfo = 64 * 1024;
  constexpr std::string_view kName = "MemAvailable:";
  const std::string text = sys::read_text_file("/proc/meminfo", kMaxMeminfo);
  const size_t at = text.find(kName);
  if (at == std::string::npos) return 0;
  std::string_view number = std::string_view(text).substr(at + kName.size());
  number.remove_prefix(std::min(number.find_first_not_of(' '), number.size()));
  return parse_u64(number.substr(0, number.find(' '))).value_or(0) * 1024;
}

std::unique_ptr<Spare> Daemon::Impl::take_spare() {
  const std::lock_guard lock(mutex_);
  return std::move(spare_);
}

void Daemon::Impl::give_back(std::unique_ptr<Spare> spare) {
  if (!spare) return;
  {
    const std::lock_guard lock(mutex_);
    spare_.swap(spare);
  }
  end_spare(std::move(spare));
  // Its time begins anew: while a request that came to nothing had it, it could not be ended.
  supervisor_->after(kSpareEnd, options_.spare, [this] { end_spare(take_spare()); });
}

void Daemon::Impl::end_spare(std::unique_ptr<Spare> spare) noexcept {
  if (!spare) return;
  const std::string id = spare->id;
  spare.reset();
  options_.cgroups.remove(id);
}

// A sandbox like this one may be asked for next.
void Daemon::Impl::spare_later(const Record& like) {
  // The reserve of huge pages is for sandboxes that there are.
  if (options_.spare.count() == 0 || like.spec.huge_pages || spare_is_due_.exchange(true)) return;
  supervisor_->after(kSpareTask, kSpareDelay, [this, like] {
    spare_is_due_ = false;
    make_spare(like);
  });
}

void Daemon::Impl::make_spare(const Record& like) noexcept {
  const std::string id = new_sandbox_id();
  try {
    {
      const std::lock_guard lock(mutex_);
      if (spare_) return;
    }
    // The sandbox itself will need all of its memory.
    if (available_memory() / 2 < like.spec.memory) return;
    const auto kernel = image::resolve_kernel(
        options_.paths, like.spec.kernel.empty() ? like.kernel : like.spec.kernel);
    give_back(std::make_unique<Spare>(launching(), id, like.spec, kernel));
  } catch (const std::exception& error) {
    // Nobody asked for it. Its cgroup may be there already.
    options_.cgroups.remove(id);
    log_.debug("no spare could be made", {{"why", error.what()}});
  }
}

}
