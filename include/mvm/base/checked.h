#pragma once
// Arithmetic on numbers that somebody else chose. Overflow is an outcome, not a surprise.

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>

namespace mvm {

template <std::unsigned_integral T>
constexpr std::optional<T> checked_add(T a, std::type_identity_t<T> b) noexcept {
  T sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

template <std::unsigned_integral T>
constexpr std::optional<T> checked_mul(T a, std::type_identity_t<T> b) noexcept {
  T product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// Rounds up to a multiple of `alignment`, a power of two.
template <std::unsigned_integral T>
constexpr std::optional<T> checked_align_up(T value, std::type_identity_t<T> alignment) noexcept {
  const auto sum = checked_add<T>(value, static_cast<T>(alignment - 1));
  if (!sum) return std::nullopt;
  return static_cast<T>(*sum & static_cast<T>(~(alignment - 1)));
}

// [offset, offset + length) lies within [0, size).
constexpr bool in_bounds(uint64_t offset, uint64_t length, uint64_t size) noexcept {
  return offset <= size && length <= size - offset;
}

}
