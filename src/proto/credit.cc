#include "mvm/proto/credit.h"

#include "mvm/base/error.h"

namespace mvm::proto {

void SendWindow::spend(size_t length) noexcept {
  MVM_ASSERT(length <= available_);
  available_ -= static_cast<uint32_t>(length);
}

bool SendWindow::grant(uint32_t credit) noexcept {
  if (credit > kInitialWindow - available_) return false;
  available_ += credit;
  return true;
}

bool ReceiveWindow::receive(size_t length) noexcept {
  if (length > available_) return false;
  available_ -= static_cast<uint32_t>(length);
  held_ += static_cast<uint32_t>(length);
  return true;
}

std::optional<uint32_t> ReceiveWindow::consume(size_t length) noexcept {
  MVM_ASSERT(length <= held_);
  held_ -= static_cast<uint32_t>(length);
  owed_ += static_cast<uint32_t>(length);
  if (owed_ < kWindowPortion) return std::nullopt;
  const uint32_t credit = owed_;
  owed_ = 0;
  available_ += credit;
  return credit;
}

}
