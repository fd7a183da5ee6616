#pragma once
// Expected<T, E>: a value or the reason there is none, for outcomes the caller branches on. Member
// names are those of std::expected (C++23), so that this becomes an alias when the compiler has it.

#include <utility>
#include <variant>

#include "mvm/base/error.h"

namespace mvm {

template <typename E>
struct Unexpected {
  E error;
};
template <typename E>
Unexpected(E) -> Unexpected<E>;

template <typename T, typename E>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Expected(Unexpected<E> unexpected)
      : state_(std::in_place_index<1>, std::move(unexpected.error)) {}

  bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  T& value() & {
    MVM_ASSERT(has_value());
    return *std::get_if<0>(&state_);
  }
  const T& value() const& {
    MVM_ASSERT(has_value());
    return *std::get_if<0>(&state_);
  }
  T&& value() && {
    MVM_ASSERT(has_value());
    return std::move(*std::get_if<0>(&state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const E& error() const {
    MVM_ASSERT(!has_value());
    return *std::get_if<1>(&state_);
  }

 private:
  std::variant<T, E> state_;
};

}
