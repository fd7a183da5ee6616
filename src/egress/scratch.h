#pragma once
// For buffers on the stack that a read fills: the release build clears variables first
// (-ftrivial-auto-var-init), which for 64 KiB costs as much as the read does.

#define MVM_UNCLEARED __attribute__((uninitialized))
