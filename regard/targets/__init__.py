"""What a command may be pointed at: a run directory, a Hugging Face directory, package.module:function."""
