# %% title [markdown]
# # 11 · Pages
#
# **You need:** Python and NumPy. No GPU.
#
# **You will be able to:** double numbers.
#
# **Time:** 5 minutes of reading, 5 for the exercise.

# %% question [markdown]
# ## The question
#
# What is twice a number?

# %% imports
import numpy as np

# %% by-adding
x = np.arange(4)
x + x

# %% now-write-it [markdown]
# ## Now write it
#
# Open `exercises/11_pages.ipynb`.
